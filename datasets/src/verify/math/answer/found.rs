//! An answer that was found, and the rule that found it.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::super::scan::each;

/// The rule that found an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// `\boxed{7}`.
    Box,
    /// `<answer>7</answer>`.
    Tag,
    /// `#### 7`.
    Hashes,
    /// `The answer is 7`.
    Phrase,
    /// A completion that is nothing but an answer.
    Whole,
    /// `**7**` in the last line.
    Bold,
    /// The end of the last sentence, after "is", an equals sign or a colon.
    Conclusion,
    /// `option C is correct`.
    Choice,
    /// The last formula.
    Formula,
    /// The last number.
    Number,
    /// A few words.
    Words,
}

impl Rule {
    /// Whether an answer stands in a mark: what the strict mode asks for.
    pub(in super::super) fn is_mark(self) -> bool {
        matches!(self, Self::Box | Self::Tag | Self::Hashes | Self::Phrase)
    }

    /// All rules, explicit marks first.
    pub const ALL: [Self; 11] = {
        use Rule::{
            Bold, Box, Choice, Conclusion, Formula, Hashes, Number, Phrase, Tag, Whole, Words,
        };
        [Box, Tag, Hashes, Phrase, Whole, Bold, Conclusion, Choice, Formula, Number, Words]
    };

    /// The name in results.
    pub fn name(self) -> &'static str {
        const NAMES: &str =
            "box|tag|hashes|phrase|whole|bold|conclusion|choice|formula|number|words";
        each(NAMES).nth(self as usize).unwrap_or_default()
    }
}

/// Where an answer stands in a completion, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Rule that found the answer.
    pub rule: Rule,
    /// Index of the answer's first byte.
    pub start: usize,
    /// The byte behind its last one.
    pub end: usize,
}

/// An answer that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    /// The answer: the text of the span, or several boxes joined by commas.
    pub text: Cow<'a, str>,
    /// Where it stands, in bytes of the completion; of several boxes, from the first to the last.
    pub span: Range<usize>,
    /// The rule that found it.
    pub rule: Rule,
}

impl Found<'_> {
    /// Where it stands, in a text that has `offset` bytes before the completion.
    pub fn location(&self, offset: usize) -> Location {
        Location { rule: self.rule, start: self.span.start + offset, end: self.span.end + offset }
    }
}
