//! The headers of a Hub's answer: the version of a file, the part that comes, where a redirect leads.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use ureq::http::Uri;

/// An ETag as a file's name: without quotes; one that is no plain name is hashed.
pub(super) fn plain_etag(etag: &str) -> String {
    let etag = etag.trim_start_matches("W/").trim_matches('"');
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    match (1..=128).contains(&etag.len()) && etag.bytes().all(is_plain) {
        true => etag.into(),
        false => Sha256::digest(etag)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .chain(["-etag".into()])
            .collect(),
    }
}

/// The first byte of a part and the length of the whole: `bytes START-END/TOTAL`.
pub(super) fn content_range(text: &str) -> Option<(u64, u64)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let [start, end, total] = [start, end, total].map(|text| text.trim().parse::<u64>().ok());
    let (start, end, total) = (start?, end?, total?);
    (start <= end && end.checked_add(1)? == total).then_some((start, total))
}

/// The parts of a path as an address spells them.
pub(super) fn encoded(path: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~/".contains(&b);
    path.bytes()
        .map(|b| if is_plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// A revision as an address spells it: a branch such as `refs/convert/parquet` is one part.
pub(super) fn one_part(revision: &str) -> String {
    encoded(revision).replace('/', "%2F")
}

/// Where a redirect from `url` leads.
pub(super) fn joined(url: &str, to: &str) -> Result<String> {
    if to.starts_with("http://") || to.starts_with("https://") {
        return Ok(to.into());
    }
    let base: Uri = url.parse().with_context(|| format!("`{url}` is no address"))?;
    let (Some(scheme), Some(host), true) =
        (base.scheme_str(), base.authority(), to.starts_with('/'))
    else {
        bail!("a redirect leads to no address");
    };
    Ok(format!("{scheme}://{host}{to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_to_addresses() {
        assert_eq!(joined("https://a.b/c?d", "/e").unwrap(), "https://a.b/e");
        assert!(joined("https://a.b/c", "file:///etc/passwd").is_err());
    }

    #[test]
    fn an_etag_is_a_plain_name_or_hashed() {
        assert_eq!(plain_etag("W/\"abc-1\""), "abc-1");
        for etag in ["\"../../x\"", "", "a/b", "a.incomplete"] {
            assert!(plain_etag(etag).ends_with("-etag"), "{etag}");
        }
    }
}
