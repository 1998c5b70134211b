//! Transfers that break off or compete: each ends with the right content, or with an error.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::hostile_hub::eval;
use crate::support::embedded;
use crate::support::hub::{FakeHub, Repository, blob_id, pointer, sha256};

/// A server whose transfers of the large file are cut in half, the first `cuts` of them.
fn cutting(cuts: usize, heeds_ranges: bool, is_right: bool) -> FakeHub {
    let count = AtomicUsize::new(0);
    let whole = embedded::files()["model.safetensors"].clone();
    let repository = Repository::new("models", "evil/model", embedded::files());
    FakeHub::with_fault(vec![repository], move |request, (status, headers, body)| {
        if !(request.method == "GET" && request.path.starts_with("/repos/")) {
            return (status, headers, body);
        }
        let (status, headers, mut body) = match (heeds_ranges, status) {
            (false, 206) => (200, String::new(), whole.clone()),
            _ => (status, headers, body),
        };
        if !is_right && status == 206 {
            body.reverse();
        }
        let length = format!("{headers}Content-Length: {}\r\n", body.len());
        if count.fetch_add(1, Ordering::SeqCst) < cuts {
            body.truncate(body.len() / 2);
        }
        (status, length, body)
    })
}

/// Whether each transfer of the large file was of a part.
fn ranges(hub: &FakeHub) -> Vec<bool> {
    let shelf = hub.shelf.lock().expect("shelf");
    let gets = shelf.cdn_log.iter().filter(|request| request.method == "GET");
    gets.map(|request| request.header("range").is_some()).collect()
}

/// Writes what another process left of the large file.
fn leave(home: &Path, content: &[u8]) -> PathBuf {
    let blobs = home.join("a/b/c/d/hub/models--evil--model/blobs");
    std::fs::create_dir_all(&blobs).expect("a folder");
    let oid = blob_id(pointer(&embedded::files()["model.safetensors"]).as_bytes());
    let part = blobs.join(format!("{oid}.incomplete"));
    std::fs::write(&part, content).expect("written");
    part
}

#[test]
fn interrupted_transfers_resume_restart_or_fail() {
    let home = || tempfile::tempdir().expect("a folder");
    let size = embedded::files()["model.safetensors"].len();
    let rest = format!("bytes={}-{}", size / 2, size - 1);
    for (hub, expected) in [
        (cutting(1, true, true), &[false, true][..]),
        (cutting(1, false, true), &[false, true]),
        // What it sends from there on is another content, and so all of it is fetched again.
        (cutting(1, true, false), &[false, true, false]),
    ] {
        let (is_ok, stderr) = eval(&hub.endpoint, home().path(), &[]);
        assert!(is_ok, "{stderr}");
        assert_eq!(ranges(&hub), expected);
        let shelf = hub.shelf.lock().expect("shelf");
        assert!(shelf.cdn_log.iter().any(|request| request.header("range") == Some(&rest)));
    }
    // A server that refuses every range.
    let model = Repository::new("models", "evil/model", embedded::files());
    let refusing = FakeHub::with_fault(vec![model], |request, answer| {
        let is_range = request.header("range").is_some() && request.path.starts_with("/repos/");
        if is_range { (416, String::new(), Vec::new()) } else { answer }
    });
    let folder = home();
    leave(folder.path(), &embedded::files()["model.safetensors"][..1000]);
    let (is_ok, stderr) = eval(&refusing.endpoint, folder.path(), &[]);
    assert!(is_ok, "{stderr}");
    assert_eq!(ranges(&refusing), [true, false]);
    let hub = cutting(usize::MAX, true, true);
    let (is_ok, stderr) = eval(&hub.endpoint, home().path(), &[]);
    assert!(!is_ok && stderr.contains("Peer disconnected"), "{stderr}");
}

#[test]
fn four_processes_that_want_one_model_fetch_it_once() {
    let hub = FakeHub::new(vec![Repository::new("models", "evil/model", embedded::files())]);
    let home = tempfile::tempdir().expect("a folder");
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (hub, home) = (&hub, &home);
            scope.spawn(move || {
                // A folder for results each, and one cache.
                let cache = home.path().join("cache").display().to_string();
                let own = home.path().join(number.to_string());
                let set = [("HF_HUB_CACHE", &*cache), ("HF_HUB_DOWNLOAD_TIMEOUT", "20")];
                let (is_ok, stderr) = eval(&hub.endpoint, &own, &set);
                assert!(is_ok, "{stderr}");
            });
        }
    });
    assert_eq!(ranges(&hub), [false]);
}

#[test]
fn a_part_of_another_range_or_version_is_never_kept() {
    let whole = embedded::files()["model.safetensors"].clone();
    let size = whole.len();
    // What is sent where the rest is asked for: another version, another part, one byte too early, the rest without
    // saying so.
    let from = |start: usize| {
        let range = format!("Content-Range: bytes {start}-{}/{size}\r\n", size - 1);
        (range, whole[start..].to_vec())
    };
    for ((headers, body), is_whole) in [
        // All of it is fetched again.
        ((String::new(), vec![b'x'; size / 2]), true),
        (from(size / 4), false),
        (from(size / 2 - 1), false),
        ((String::new(), whole[size / 2..].to_vec()), true),
    ] {
        let repository = Repository::new("models", "evil/model", embedded::files());
        let hub = FakeHub::with_fault(vec![repository], move |request, answer| {
            let is_part = request.path.starts_with("/repos/") && request.header("range").is_some();
            if is_part { (206, headers.clone(), body.clone()) } else { answer }
        });
        let home = tempfile::tempdir().expect("a folder");
        let part = leave(home.path(), &whole[..size / 2]);
        let (is_ok, stderr) = eval(&hub.endpoint, home.path(), &[]);
        let kept = part.with_file_name(sha256(&whole));
        assert_eq!((is_ok, kept.exists()), (is_whole, is_whole), "{stderr}");
        assert!(!is_ok || std::fs::read(&kept).expect("a blob") == whole, "{stderr}");
    }
}
