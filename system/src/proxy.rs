//! Which proxy of the environment a request takes: `HTTPS_PROXY` or `HTTP_PROXY` by the scheme of its address, or
//! `ALL_PROXY`, unless `NO_PROXY` names the host. ureq alone would take one proxy for both schemes, and know neither
//! domains nor networks in `NO_PROXY`.

use std::net::IpAddr;

use anyhow::{Context, Result};
use ureq::Proxy;

/// What goes by a proxy, and what does not.
pub(crate) struct Proxies<T> {
    plain: Option<T>,
    encrypted: Option<T>,
    /// The entries of `NO_PROXY`.
    exempt: Vec<String>,
}

impl<T> Proxies<T> {
    /// Makes a `T` of each proxy that the environment names.
    pub(crate) fn from_environment(make: impl Fn(Proxy) -> T) -> Result<Self> {
        Self::new(|name| std::env::var(name).ok(), make)
    }

    fn new(variable: impl Fn(&str) -> Option<String>, make: impl Fn(Proxy) -> T) -> Result<Self> {
        let value = |name: &str| {
            let value = variable(name).filter(|value| !value.is_empty());
            Some(name.to_owned()).zip(value)
        };
        let named = |name: &str| value(name).or_else(|| value(&name.to_ascii_uppercase()));
        let proxy = |name: &str| -> Result<Option<T>> {
            let Some((name, text)) = named(name).or_else(|| named("all_proxy")) else {
                return Ok(None);
            };
            // The value may hold a password, so it is not shown.
            let proxy = Proxy::new(&text)
                .with_context(|| format!("{name} is not a proxy URL: use http://host:port"))?;
            Ok(Some(make(proxy)))
        };
        let exempt = named("no_proxy").map(|(_, list)| list).unwrap_or_default();
        let exempt = exempt.split(',').map(|entry| entry.trim().to_ascii_lowercase());
        Ok(Self {
            plain: proxy("http_proxy")?,
            encrypted: proxy("https_proxy")?,
            exempt: exempt.filter(|entry| !entry.is_empty()).collect(),
        })
    }

    /// That of the proxy for a host, which is in lower case; none where the request goes there itself.
    pub(crate) fn get(&self, is_encrypted: bool, host: &str) -> Option<&T> {
        let proxy = if is_encrypted { &self.encrypted } else { &self.plain };
        proxy.as_ref().filter(|_| !self.exempt.iter().any(|entry| is_exempt(entry, host)))
    }
}

/// Whether an entry of `NO_PROXY` names a host: `*`, the host, a domain above it, its address, or a network with it.
fn is_exempt(entry: &str, host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse::<IpAddr>() {
        return entry == "*" || is_in_network(entry, address);
    }
    let domain = entry.trim_start_matches('*').trim_start_matches('.');
    let rest = host.strip_suffix(domain);
    entry == "*"
        || (!domain.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Whether an address is that of `network` or lies in it: `10.0.0.0/8`.
fn is_in_network(network: &str, address: IpAddr) -> bool {
    let (first, prefix) = network.split_once('/').unwrap_or((network, "128"));
    let (Ok(first), Ok(prefix)) = (first.parse::<IpAddr>(), prefix.parse::<u32>()) else {
        return false;
    };
    let (first, address, bits) = match (first, address) {
        (IpAddr::V4(first), IpAddr::V4(address)) => {
            (u128::from(first.to_bits()), u128::from(address.to_bits()), 32)
        }
        (IpAddr::V6(first), IpAddr::V6(address)) => (first.to_bits(), address.to_bits(), 128),
        _ => return false,
    };
    let below = bits - prefix.min(bits);
    first.checked_shr(below) == address.checked_shr(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_follow_the_scheme_and_leave_out_what_no_proxy_names() {
        let variables = [
            ("https_proxy", "http://secure:1"),
            ("HTTP_PROXY", "http://plain:2"),
            ("no_proxy", "localhost, .corp.org,10.0.0.0/8,::1"),
        ];
        let variable =
            |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
        let proxies = Proxies::new(variable, |proxy| proxy.host().to_owned()).unwrap();
        let host = |is_encrypted, host| proxies.get(is_encrypted, host).map(String::as_str);
        assert_eq!(host(true, "hub.co"), Some("secure"));
        assert_eq!(host(false, "hub.co"), Some("plain"));
        for exempt in ["localhost", "corp.org", "gpu.corp.org", "10.1.2.3", "[::1]"] {
            assert_eq!(host(true, exempt), None, "{exempt}");
        }
        for other in ["notcorp.org", "11.1.2.3", "[::2]", "localhost.evil.org"] {
            assert_eq!(host(true, other), Some("secure"), "{other}");
        }
        let broken = Proxies::new(|_| Some("http://user:secret@".into()), drop);
        let message = format!("{:#}", broken.err().unwrap());
        assert!(message.contains("http_proxy is not a proxy URL"), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
}
