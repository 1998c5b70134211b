//! GGUF, llama.cpp's and Ollama's file of a whole model: read as a model in Hub layout, and written from one.
//!
//! `read` parses the header with limits and dequantises tensors by Candle; `to_hub` turns it into a `config.json`,
//! weights under the Hub's names and tokenizer files; `write` does the reverse. `names` has the tensors' names in
//! both worlds, `pre` the pre-tokenizers that files call by name.

mod names;
mod pre;
mod read;
mod to_hub;
mod write;

pub use read::{Gguf, Value};
pub use to_hub::HubModel;
pub use write::{GgufType, write};

/// How files begin.
const MAGIC: [u8; 4] = *b"GGUF";
/// Tensors begin at multiples of this many bytes, unless a file says otherwise.
const ALIGNMENT: u64 = 32;
/// Kinds of tokens: special ones, and added ones that are text.
const TOKEN_NORMAL: i64 = 1;
const TOKEN_CONTROL: i64 = 3;
const TOKEN_USER_DEFINED: i64 = 4;

/// Families whose layers this program has, by the name that files give them and by the Hub's.
const FAMILIES: [(&str, &str); 3] = [("llama", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3")];
