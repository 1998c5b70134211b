//! Tokens, as they come, to text: a token may be a part of a character, and what it is depends on its neighbours.

use anyhow::Result;

use super::Tokenizer;

/// The replacement of a character that is incomplete so far.
const BROKEN: char = '\u{fffd}';

/// Text as far as it is known.
pub struct TextStream<'a> {
    tokenizer: &'a dyn Tokenizer,
    ids: Vec<u32>,
    /// Where decoding begins, for the sake of neighbours, and up to where its text was handed out.
    from: usize,
    shown: usize,
}

impl<'a> TextStream<'a> {
    /// Nothing yet.
    pub fn new(tokenizer: &'a dyn Tokenizer) -> Self {
        Self { tokenizer, ids: Vec::new(), from: 0, shown: 0 }
    }

    /// The text that one more token adds; empty where the token ends within a character.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.ids.push(id);
        let text = self.tokenizer.decode(&self.ids[self.from..])?;
        if text.ends_with(BROKEN) {
            return Ok(String::new());
        }
        self.advance(&text)
    }

    /// The rest of the text at the end, broken characters included.
    pub fn rest(&mut self) -> Result<String> {
        let text = self.tokenizer.decode(&self.ids[self.from..])?;
        self.advance(&text)
    }

    fn advance(&mut self, text: &str) -> Result<String> {
        let known = self.tokenizer.decode(&self.ids[self.from..self.shown])?;
        let new = text.get(known.len()..).unwrap_or_default().to_owned();
        (self.from, self.shown) = (self.shown, self.ids.len());
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_core::Prompt;

    /// A token a byte.
    struct Bytes;

    impl Tokenizer for Bytes {
        fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>> {
            self.encode_completion(&prompt.plain())
        }
        fn encode_completion(&self, text: &str) -> Result<Vec<u32>> {
            Ok(text.bytes().map(u32::from).collect())
        }
        fn decode(&self, ids: &[u32]) -> Result<String> {
            let bytes: Vec<u8> = ids.iter().map(|id| *id as u8).collect();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        fn eos(&self) -> &[u32] {
            &[0]
        }
    }

    #[test]
    fn multibyte_characters_are_not_split() {
        let mut stream = TextStream::new(&Bytes);
        let parts: Vec<String> = "aé日b".bytes().map(|b| stream.push(b.into()).unwrap()).collect();
        assert_eq!(parts, ["a", "", "é", "", "", "日", "b"]);
        assert_eq!(stream.push(0xe6).unwrap(), "");
        assert_eq!(stream.rest().unwrap(), "\u{fffd}");
    }
}
