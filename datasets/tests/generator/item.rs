//! A value with the ways to write it, and values near it.

/// Random numbers (splitmix64); the same seed gives the same pairs on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn int(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    /// A number of that range other than those.
    pub(crate) fn other(&mut self, low: i64, high: i64, known: &[i64]) -> i64 {
        loop {
            let value = self.int(low, high);
            if !known.contains(&value) {
                return value;
            }
        }
    }

    /// One of several.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.int(0, items.len() as i64 - 1) as usize]
    }

    /// One of the texts with `~` between them.
    pub(crate) fn pick_of<'a>(&mut self, texts: &'a str) -> &'a str {
        let texts: Vec<&'a str> = texts.split('~').collect();
        texts[self.int(0, texts.len() as i64 - 1) as usize]
    }

    /// Whether one of `count` comes up.
    pub(crate) fn one_in(&mut self, count: i64) -> bool {
        self.int(1, count) == 1
    }
}

/// A value: how golds write it, how answers write it in LaTeX and in plain text, and wrong answers to it.
#[derive(Default)]
pub(crate) struct Item {
    pub(crate) golds: Vec<String>,
    pub(crate) math: Vec<String>,
    pub(crate) plain: Vec<String>,
    pub(crate) wrong_math: Vec<String>,
    pub(crate) wrong_plain: Vec<String>,
}

impl Item {
    pub(crate) fn gold<S: Into<String>>(mut self, texts: impl IntoIterator<Item = S>) -> Self {
        self.golds.extend(texts.into_iter().map(Into::into));
        self
    }
    pub(crate) fn math<S: Into<String>>(mut self, texts: impl IntoIterator<Item = S>) -> Self {
        self.math.extend(texts.into_iter().map(Into::into));
        self
    }
    pub(crate) fn plain<S: Into<String>>(mut self, texts: impl IntoIterator<Item = S>) -> Self {
        self.plain.extend(texts.into_iter().map(Into::into));
        self
    }
    pub(crate) fn wrong<S: Into<String>>(mut self, texts: impl IntoIterator<Item = S>) -> Self {
        self.wrong_math.extend(texts.into_iter().map(Into::into));
        self
    }
    pub(crate) fn wrong_plain<S: Into<String>>(
        mut self,
        texts: impl IntoIterator<Item = S>,
    ) -> Self {
        self.wrong_plain.extend(texts.into_iter().map(Into::into));
        self
    }
}

pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

/// `+5` or `-5`.
pub(crate) fn signed(value: i64) -> String {
    format!("{value:+}")
}

/// A whole number with a mark between its groups of three digits.
pub(crate) fn grouped(value: i64, mark: &str) -> String {
    let digits = value.abs().to_string();
    let mut out = if value < 0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push_str(mark);
        }
        out.push(digit);
    }
    out
}

/// The digits of a text in another script.
pub(crate) fn in_script(text: &str, zero: char) -> String {
    let digit = |c: char| match c.to_digit(10) {
        Some(value) => char::from_u32(zero as u32 + value).unwrap_or(c),
        None => c,
    };
    text.chars().map(digit).collect()
}
