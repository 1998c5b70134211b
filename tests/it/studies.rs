//! A study's report: the filters that it samples with; the folder of its base.

use crate::support::binary::{Folder, command, printed, refused};
use crate::support::runs::{SMALL, json};

#[test]
fn filters_of_evaluations_are_reported() {
    let folder = Folder::new();
    // One token is kept at every position, so that all samples of a problem are the same.
    for (name, filters, is_one) in [("whole", "", false), ("top", "--eval-top-k 1", true)] {
        let output = folder.path(name);
        let table = printed(command!(
            "study --task countdown --output {output} --quiet --no-greedy --objectives none --max-steps 2 --max-samples 8 \
             --max-test-samples 8 -n 8 -k 1,8 --eval-steps 0 {SMALL} {filters}"
        ));
        let results = json(format!("{output}/results.json"));
        assert_eq!(results["filters"]["top_k"], if is_one { 1 } else { 0 });
        assert_eq!(results["filters"]["top_p"], 1.0);
        let reported = &results["datasets"][0]["base"]["summary"]["pass@k"];
        assert_eq!(reported["1"]["value"] == reported["8"]["value"], is_one, "{reported}");
        let words = if is_one { "temperature 1, top-k 1." } else { "temperature 1, no filters" };
        for file in ["results.md", "report.html"] {
            let text = std::fs::read_to_string(format!("{output}/{file}")).expect("readable");
            assert!(text.contains(words), "{file}: {text}");
        }
        assert!(table.contains(words), "{table}");
    }
    let (study, base) = (folder.path("top"), folder.path("top/base"));
    refused!("report {base}" => format!("`tealight report {study}`"));
}
