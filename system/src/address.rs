//! Addresses of HTTP: whose they are, and where a redirect leads. They are read by the parser that ureq connects with,
//! so that both agree on the host.

use ureq::http::Uri;

/// Who answers at an address: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub(crate) is_encrypted: bool,
    /// In lower case.
    pub(crate) host: String,
    port: u16,
}

/// Whose an address is; none where it is not one of `http` or `https`, or holds a user's name.
pub fn origin(address: &str) -> Option<Origin> {
    origin_of(&address.parse().ok()?)
}

pub(crate) fn origin_of(address: &Uri) -> Option<Origin> {
    let is_encrypted = match address.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let authority = address.authority().filter(|authority| !authority.as_str().contains('@'))?;
    let host = authority.host().to_ascii_lowercase();
    let default = if is_encrypted { 443 } else { 80 };
    // Text behind the colon that is no port names no server.
    let port = match authority.as_str().get(host.len()..)? {
        "" => default,
        _ => authority.port_u16()?,
    };
    (!host.is_empty()).then_some(Origin { is_encrypted, host, port })
}

/// The address that a redirect at `base` leads to, or why it is not followed.
pub(crate) fn followed(base: &Uri, location: Option<&[u8]>) -> Result<Uri, &'static str> {
    let next = location.and_then(|location| joined(base, location));
    let next = next.ok_or("a redirect to something that is not an http or https URL")?;
    match base.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
        true => Err("a redirect from https to an address without encryption"),
        false => Ok(next),
    }
}

/// The address that a redirect at `base` names.
fn joined(base: &Uri, location: &[u8]) -> Option<Uri> {
    let text = encoded(location);
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let has_scheme = text.split(['/', '?', '#']).next().is_some_and(|first| first.contains(':'));
    let address = if has_scheme {
        let (scheme, rest) = text.split_once(':')?;
        format!("{}:{rest}", scheme.to_ascii_lowercase())
    } else if text.starts_with("//") {
        format!("{scheme}:{text}")
    } else if text.starts_with('/') {
        format!("{scheme}://{authority}{text}")
    } else if text.starts_with('?') {
        format!("{scheme}://{authority}{}{text}", base.path())
    } else {
        let folder = &base.path()[..=base.path().rfind('/')?];
        format!("{scheme}://{authority}{folder}{text}")
    };
    address.parse().ok().filter(|next| origin_of(next).is_some())
}

/// Text for an address: what no address holds is written in percent.
fn encoded(text: &[u8]) -> String {
    percent(text, |byte| {
        byte.is_ascii_graphic()
            && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
    })
}

/// A name as a part of an address; its slashes stay.
pub fn encoded_name(name: &str) -> String {
    percent(name.as_bytes(), |byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte))
}

/// Bytes as text: those that are not `plain` are written in percent.
fn percent(bytes: &[u8], plain: impl Fn(u8) -> bool) -> String {
    let write = |byte: &u8| match plain(*byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    bytes.iter().map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_differ_by_scheme_host_or_port() {
        let home = origin("https://hub.co").unwrap();
        for same in ["https://hub.co/x", "https://HUB.co:443/?y"] {
            assert_eq!(origin(same), Some(home.clone()), "{same}");
        }
        let evil = "https://hub.co.evil.org/x";
        for other in [evil, "http://hub.co", "http://hub.co:443", "https://hub.co:80"] {
            assert!(origin(other).is_some_and(|other| other != home), "{other}");
        }
        for none in ["https://hub.co@evil.org", "//hub.co", "file:///etc/passwd", "hub.co", ""] {
            assert_eq!(origin(none), None, "{none}");
        }
    }

    #[test]
    fn redirects_are_joined_and_never_leave_https() {
        let base: Uri = "https://hub.co/a/b?c".parse().unwrap();
        for (location, expected) in [
            ("/x", "https://hub.co/x"),
            ("x", "https://hub.co/a/x"),
            ("?x:/", "https://hub.co/a/b?x:/"),
            ("//cdn.co/x", "https://cdn.co/x"),
            ("HTTPS://cdn.co/ä b#c", "https://cdn.co/%C3%A4%20b"),
        ] {
            let next = followed(&base, Some(location.as_bytes())).unwrap();
            assert_eq!(next.to_string(), expected);
        }
        for refused in ["http://hub.co/x", "file:///etc/passwd", "javascript:0", "https://", "//"] {
            assert!(followed(&base, Some(refused.as_bytes())).is_err(), "{refused}");
        }
        assert!(followed(&base, None).is_err());
    }
}
