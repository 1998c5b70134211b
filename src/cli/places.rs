//! Where a setting stands in a file of settings.

/// The file and the line of a key in it, whatever spelling of its name the file has.
pub(super) fn place(file: &str, text: &str, key: &str) -> String {
    line_of(text, key).map_or(file.to_owned(), |line| format!("{file}:{}", line + 1))
}

/// The line of a key, from 0.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let is_key = |line: &str| {
        // Of a table, `[key]` and `key.other = 1`, too.
        let name = line.trim_start_matches([' ', '[']).split(['=', '.', ']']).next();
        let name = name.unwrap_or_default().trim().trim_matches(['"', '\'']);
        name.replace('-', "_") == key.replace('-', "_")
    };
    text.lines().position(is_key)
}
