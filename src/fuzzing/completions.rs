//! Files of completions that other programs wrote, read as `grade` reads them.

use tealight_datasets::verify;
use tealight_eval::grade::{GradeJob, Source};

use super::with_file;

/// Grades a file of these bytes, once as what they are and once as CSV.
pub(super) fn try_file(data: &[u8]) {
    let verifier = verify::open("exact").expect("a verifier");
    for name in ["file.jsonl", "file.csv"] {
        with_file(name, data, |folder| {
            let path = folder.join(name).display().to_string();
            let Ok(mut source) = Source::open(&path) else { return };
            let job = GradeJob::new(&*verifier);
            if let Ok(graded) = job.run(&mut source, &mut |_| Ok(())) {
                assert_eq!(graded.tallies.len(), graded.problems.len());
            }
        });
    }
}
