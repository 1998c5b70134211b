//! The user's token, and the Hub that it is for. `tealight_system::http` sends it there and nowhere else.

use std::path::PathBuf;

use tealight_system::hf_home;

/// The token that may write: `HF_TOKEN`, or the file that `hf auth login` leaves.
pub fn token() -> Option<String> {
    let from_file = || {
        let path = std::env::var_os("HF_TOKEN_PATH").map(PathBuf::from);
        std::fs::read_to_string(path.unwrap_or_else(|| hf_home::home().join("token"))).ok()
    };
    let clean = |token: String| Some(token.trim().to_owned()).filter(|token| !token.is_empty());
    std::env::var("HF_TOKEN").ok().and_then(clean).or_else(|| clean(from_file()?))
}

/// The server that `HF_ENDPOINT` names, or the Hub.
pub fn endpoint() -> String {
    let endpoint = std::env::var("HF_ENDPOINT");
    endpoint.as_deref().unwrap_or("https://huggingface.co").trim_end_matches('/').to_owned()
}
