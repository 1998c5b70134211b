//! Whether completions begin in a thought that their prompts opened: a file of a model that does not think may stand
//! beside one of a model that does.

use tealight_datasets::thinking;

use crate::Completion;
use crate::number::counted;

/// The least share of completions with a thought that they did not open, as one in so many, which is worth a note.
const ONE_IN: usize = 10;

/// What the first completions of a file say of their thoughts.
pub(super) struct Thoughts {
    /// Whether the user says that prompts opened thoughts, and whether they did in this file.
    is_asked: bool,
    pub(super) start_inside: bool,
    completions: usize,
    /// Completions that close a thought which they did not open.
    unopened: usize,
}

impl Thoughts {
    pub(super) fn new(is_asked: bool) -> Self {
        Self { is_asked, start_inside: is_asked, completions: 0, unopened: 0 }
    }

    /// Looks at the first completions of the file.
    pub(super) fn find<'c>(&mut self, completions: impl Iterator<Item = &'c Completion>) {
        let mut has_closed = false;
        for one in completions.filter(|one| one.failure.is_none()) {
            self.completions += 1;
            let text = one.text.trim_start();
            let closed = thinking::parts(text, true).is_finished == Some(true);
            has_closed |= closed || one.is_stripped;
            self.unopened += usize::from(closed && thinking::closes_unopened(text));
        }
        self.start_inside = self.is_asked && has_closed;
    }

    /// What is to be said of the file called `name`.
    pub(super) fn sentence(&self, name: &str) -> Option<String> {
        if self.is_asked && !self.start_inside && self.completions > 0 {
            return Some(format!(
                "no completion of {name} closes a thought: --prefilled-thinking is not applied to this file"
            ));
        }
        let (unopened, all) = (self.unopened, self.completions);
        let rest = all - unopened;
        (!self.is_asked && rest > 0 && unopened > 0 && ONE_IN * unopened >= all).then(|| {
            format!(
                "{unopened} of the first {} close a thought that they did not open, so their prompts did: with \
                 --prefilled-thinking the others count as unfinished thoughts, and not as answers",
                counted(all, "completion")
            )
        })
    }
}
