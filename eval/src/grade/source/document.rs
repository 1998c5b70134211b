//! A JSON document to the records in it, one at a time: the items of an array, or what an object holds under `samples`
//! (Inspect) or under numbers (OpenCompass). An object without any is a record itself, and others may follow it.
//! Never is more than one record in memory.

use std::io::BufRead;

use serde_json::{Map, Value};
use tealight_core::lines::MAX_LINE;
use tealight_datasets::json;

use super::archive;
use crate::grade::line::LISTS;

/// Most bytes of the other values of an object that are kept: those of a record.
const MAX_HEADER: usize = MAX_LINE;

/// A record of a document.
pub(super) struct Item {
    /// Its key, where it stands in an object.
    pub(super) key: Option<String>,
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Start,
    /// Between the items of the array that is the document.
    Array,
    /// Between the entries of the object that is the document.
    Object,
    /// Between the items of a list in that object.
    List,
    End,
}

/// Reads the records of a document.
pub(super) struct Document<R> {
    reader: R,
    state: State,
    /// Whether an item stands before the next one.
    is_first: bool,
    records: usize,
    header: Map<String, Value>,
    header_bytes: usize,
    is_object: bool,
    /// What is to be said of a run that did not end.
    pub(super) unfinished: Option<String>,
}

type Read<T> = Result<T, String>;

impl<R: BufRead> Document<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            state: State::Start,
            is_first: true,
            records: 0,
            header: Map::new(),
            header_bytes: 0,
            is_object: false,
            unfinished: None,
        }
    }

    /// The next record; an object without any is a record itself.
    pub(super) fn next(&mut self) -> Read<Option<Item>> {
        loop {
            match self.state {
                State::Start => {
                    self.state = match self.skip_blanks()? {
                        Some(b'[') => State::Array,
                        Some(b'{') => State::Object,
                        Some(_) => return Err("not JSON".into()),
                        None => State::End,
                    };
                    self.is_object = self.state == State::Object;
                    (self.is_first, self.records, self.header_bytes) = (true, 0, 0);
                    if self.state != State::End {
                        self.consume();
                    }
                }
                State::Array | State::List => {
                    if self.ends(b']')? {
                        let is_inner = self.state == State::List;
                        (self.state, self.is_first) =
                            (if is_inner { State::Object } else { State::End }, false);
                        continue;
                    }
                    let bytes = self.value()?;
                    self.records += 1;
                    return Ok(Some(Item { key: None, bytes }));
                }
                State::Object => {
                    if self.ends(b'}')? {
                        self.state = State::End;
                        let header = std::mem::take(&mut self.header);
                        if self.records > 0 {
                            let of_log = archive::unfinished(&header, self.records);
                            self.unfinished = self.unfinished.take().or(of_log);
                        } else {
                            let header = Value::Object(header);
                            return Ok(Some(Item {
                                key: None,
                                bytes: header.to_string().into_bytes(),
                            }));
                        }
                        continue;
                    }
                    if let Some(item) = self.entry()? {
                        return Ok(Some(item));
                    }
                }
                State::End => {
                    return match self.skip_blanks()? {
                        None => Ok(None),
                        Some(b'{') if self.is_object => {
                            self.state = State::Start;
                            continue;
                        }
                        Some(_) => Err("text stands behind the end of the document: give one object a line, or \
                                        one array of objects"
                            .into()),
                    };
                }
            }
        }
    }

    /// An entry of the object: a record, or part of the header.
    fn entry(&mut self) -> Read<Option<Item>> {
        let key = self.value()?;
        let Ok(Value::String(key)) = serde_json::from_slice(&key) else {
            return Err("not JSON: a key is expected".into());
        };
        if self.skip_blanks()? != Some(b':') {
            return Err(format!("not JSON: no colon behind the key `{}`", key.escape_debug()));
        }
        self.consume();
        let start = self.skip_blanks()?;
        if start == Some(b'[') && LISTS.iter().any(|(list, _)| *list == key) {
            self.consume();
            (self.state, self.is_first) = (State::List, true);
            return Ok(None);
        }
        let bytes = self.value()?;
        if start == Some(b'{') && !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit()) {
            self.records += 1;
            return Ok(Some(Item { key: Some(key), bytes }));
        }
        self.header_bytes += key.len() + bytes.len();
        let is_kept = self.header_bytes <= MAX_HEADER;
        let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
        let value = json::parse(&text)
            .map_err(|error| format!("not JSON: `{}`: {error}", key.escape_debug()))?;
        if self.header.contains_key(&key) {
            return Err(format!("the key `{}` occurs twice", key.escape_debug()));
        }
        if is_kept {
            self.header.insert(key, value);
        }
        Ok(None)
    }

    /// Whether the array or object ends here; else what stands between two items is read.
    fn ends(&mut self, end: u8) -> Read<bool> {
        let next = self.skip_blanks()?;
        if next == Some(end) {
            self.consume();
            return Ok(true);
        }
        if std::mem::replace(&mut self.is_first, false) {
            return Ok(false);
        }
        if next != Some(b',') {
            return Err(match next {
                None => "the document was cut off".into(),
                Some(_) => "not JSON: no comma between two items".into(),
            });
        }
        self.consume();
        Ok(false)
    }

    /// The bytes of the next value; whether they are JSON is for the parser of the record.
    fn value(&mut self) -> Read<Vec<u8>> {
        self.skip_blanks()?;
        let (mut bytes, mut depth, mut is_string, mut is_escaped) =
            (Vec::new(), 0_usize, false, false);
        loop {
            let buffer =
                self.reader.fill_buf().map_err(|error| format!("cannot be read: {error}"))?;
            if buffer.is_empty() {
                return Err("the document was cut off".into());
            }
            let mut used = 0;
            let mut is_whole = false;
            for byte in buffer {
                if is_string {
                    match byte {
                        _ if is_escaped => is_escaped = false,
                        b'\\' => is_escaped = true,
                        b'"' => is_string = false,
                        _ => {}
                    }
                    used += 1;
                    is_whole = !is_string && depth == 0;
                } else {
                    // A scalar ends before what follows it.
                    let ends_scalar =
                        matches!(byte, b',' | b']' | b'}' | b':') || byte.is_ascii_whitespace();
                    if depth == 0 && ends_scalar {
                        is_whole = true;
                        break;
                    }
                    used += 1;
                    match byte {
                        b'"' => is_string = true,
                        b'[' | b'{' => depth += 1,
                        b']' | b'}' => {
                            depth -= 1;
                            is_whole = depth == 0;
                        }
                        _ => {}
                    }
                }
                if is_whole {
                    break;
                }
            }
            bytes.extend_from_slice(&buffer[..used]);
            self.reader.consume(used);
            if bytes.len() > MAX_LINE {
                return Err(format!("a record of more than {MAX_LINE} bytes, the limit"));
            }
            if is_whole && bytes.is_empty() {
                return Err("not JSON: a value is missing".into());
            }
            if is_whole {
                return Ok(bytes);
            }
        }
    }

    /// The next byte that is not blank, which is not consumed.
    fn skip_blanks(&mut self) -> Read<Option<u8>> {
        loop {
            let buffer =
                self.reader.fill_buf().map_err(|error| format!("cannot be read: {error}"))?;
            if buffer.is_empty() {
                return Ok(None);
            }
            match buffer.iter().position(|byte| !byte.is_ascii_whitespace()) {
                Some(at) => {
                    let found = buffer[at];
                    self.reader.consume(at);
                    return Ok(Some(found));
                }
                None => {
                    let length = buffer.len();
                    self.reader.consume(length);
                }
            }
        }
    }

    fn consume(&mut self) {
        self.reader.consume(1);
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn read(text: &str) -> Read<Vec<(Option<String>, String)>> {
        // A small buffer, so that values go over its end.
        let mut document = Document::new(BufReader::with_capacity(3, text.as_bytes()));
        let mut items = Vec::new();
        while let Some(item) = document.next()? {
            items.push((item.key, String::from_utf8(item.bytes).unwrap()));
        }
        Ok(items)
    }

    #[test]
    fn records_are_found_in_arrays_and_objects() {
        let plain = |texts: &[&str]| {
            texts.iter().map(|text| (None, (*text).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(read(" [ ] ").unwrap(), []);
        assert_eq!(
            read(r#"[{"a":"]\"}"}, 7 ,"x",[[1]]]"#).unwrap(),
            plain(&[r#"{"a":"]\"}"}"#, "7", "\"x\"", "[[1]]"])
        );
        assert_eq!(
            read(r#"{"version": 2, "samples": [{"a": 1}, {"b": 2}], "z": [1]}"#).unwrap(),
            plain(&[r#"{"a": 1}"#, r#"{"b": 2}"#])
        );
        let numbered = read("{\n \"0\": {\"p\": 1},\n \"1\": {}\n}\n").unwrap();
        assert_eq!(
            numbered,
            [(Some("0".into()), r#"{"p": 1}"#.into()), (Some("1".into()), "{}".into())]
        );
        let two = read("{\"a\": 1}\n{\n\"a\": {\"b\": 2}\n}").unwrap();
        assert_eq!(two, plain(&[r#"{"a":1}"#, r#"{"a":{"b":2}}"#]));
        // One record over several lines.
        assert_eq!(
            read("{\n\"id\": 1,\n\"gold\": [2]\n}").unwrap(),
            plain(&[r#"{"id":1,"gold":[2]}"#])
        );
    }

    #[test]
    fn documents_that_are_not_whole_are_refused() {
        for (text, why) in [
            ("[{\"a\": 1}", "cut off"),
            ("[{\"a\": 1", "cut off"),
            ("[1 2]", "no comma"),
            ("{\"a\" 1}", "no colon"),
            ("{7: 1}", "a key is expected"),
            ("{\"a\": nope}", "not JSON"),
            ("{\"a\": 1, \"a\": 2}", "occurs twice"),
            ("[1,,2]", "a value is missing"),
            ("[1}", "no comma"),
            ("[1] [2]", "behind the end"),
            ("{\"a\": 1}\n[1]", "behind the end"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
