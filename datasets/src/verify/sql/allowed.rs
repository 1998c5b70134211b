//! The functions that a query may call: one that is not listed is refused, so that a later SQLite brings no new one.

/// Functions of SQLite whose result depends on their arguments and the database alone, and whose work is bounded by the
/// length of their arguments and results (the guarded ones of `functions.rs` included): values, texts, mathematics,
/// dates, groups and windows, JSON. `json_pretty` is not among them: its work is the depth squared times the indent.
/// Dates stay, though `'now'` differs from day to day: questions about ages need them.
const ALLOWED: &str = "
    abs coalesce ifnull iif if likelihood likely max min nullif quote round sign typeof unlikely
    char concat concat_ws format glob hex instr length like lower ltrim octet_length printf replace rtrim soundex
    substr substring trim unicode unistr unistr_quote upper
    acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow
    power radians sin sinh sqrt tan tanh trunc
    current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch
    avg count cume_dist dense_rank first_value group_concat lag last_value lead median nth_value ntile percent_rank
    percentile percentile_cont percentile_disc rank row_number string_agg sum total
    -> ->> json json_array json_array_insert json_array_length json_error_position json_extract json_group_array
    json_group_object json_insert json_object json_quote json_remove json_replace json_set json_type
    json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert
    jsonb_object jsonb_remove jsonb_replace jsonb_set
";

/// Whether a query may call the function of this name, in lower case.
pub(super) fn is_allowed(name: &str) -> bool {
    ALLOWED.split_ascii_whitespace().any(|allowed| allowed == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rusqlite::Connection;

    use super::*;

    #[test]
    fn every_function_of_this_sqlite_is_allowed_or_refused_on_purpose() {
        let connection = Connection::open_in_memory().expect("a database");
        let mut statement =
            connection.prepare("SELECT DISTINCT name FROM pragma_function_list").expect("a list");
        let names = statement.query_map([], |row| row.get::<_, String>(0)).expect("names");
        let refused: BTreeSet<String> =
            names.map(|name| name.expect("a name")).filter(|name| !is_allowed(name)).collect();
        // They leave the database, differ from call to call, tell of the program or the connection, fill memory, take
        // the square of what they are given, or belong to full-text and geometry tables, which no script may make.
        const KNOWN: &str = "changes fts3_tokenizer json_patch json_pretty jsonb_patch last_insert_rowid load_extension \
            random randomblob sqlite_compileoption_get sqlite_compileoption_used sqlite_log \
            sqlite_source_id sqlite_version subtype total_changes unhex zeroblob match matchinfo offsets \
            optimize snippet bm25 highlight fts5 fts5_source_id fts5_get_locale fts5_insttoken fts5_locale \
            rtreecheck rtreedepth rtreenode";
        let known: Vec<&str> = KNOWN.split(' ').collect();
        let unknown: Vec<&String> =
            refused.iter().filter(|name| !known.contains(&name.as_str())).collect();
        assert!(unknown.is_empty(), "neither allowed nor known to be refused: {unknown:?}");
        assert!(
            refused.contains("load_extension") && refused.contains("randomblob"),
            "{refused:?}"
        );
    }
}
