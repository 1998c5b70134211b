//! Prompt interference: the laboratory's table.

use crate::support::binary::{refusal, stderr_of, tealight};

#[test]
fn the_laboratory_prints_pairs_and_pass_at_k() {
    let done = tealight(&["lab", "strategies", "--table", "interference", "--json"]);
    assert!(done.status.success(), "{}", stderr_of(&done));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let product = |name: &str| {
        let row = rows.iter().find(|row| row["gradients"][0] == name).expect("a row");
        row["inner_product"].as_f64().expect("a number")
    };
    assert!(product("Pass@2") > 0.0 && product("Pass@64") < 0.0, "{text}");
    let error = refusal(&["lab", "ends", "--table", "interference"]);
    assert!(error.contains("walk or strategies"), "{error}");
}
