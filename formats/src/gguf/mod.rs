//! GGUF, llama.cpp's and Ollama's file of a whole model: read as a model in Hub layout, and written from one.
//!
//! `read` parses the header with limits and dequantises tensors by Candle; `to_hub` turns it into a `config.json`,
//! weights under the Hub's names; `write` does the reverse. `tokenizer` has tokenizers in both worlds, `names` the
//! names of tensors, `pre` the pre-tokenizers that files call by name, `pieces` SentencePiece's scores and merges.

mod names;
mod pieces;
mod pre;
mod read;
mod to_hub;
mod tokenizer;
mod write;

pub use read::{Gguf, Value};
pub use to_hub::HubModel;
pub use write::{GgufType, write};

/// First bytes of a GGUF file.
const MAGIC: [u8; 4] = *b"GGUF";
/// Tensors begin at multiples of this many bytes, unless a file says otherwise.
const ALIGNMENT: u64 = 32;
/// Kinds of tokens: what stands for the unknown, special ones, added ones that are text, padding, bytes.
const TOKEN_NORMAL: i64 = 1;
const TOKEN_UNKNOWN: i64 = 2;
const TOKEN_CONTROL: i64 = 3;
const TOKEN_USER_DEFINED: i64 = 4;
const TOKEN_UNUSED: i64 = 5;
const TOKEN_BYTE: i64 = 6;

/// Families whose layers this program has, by the name that files give them and by the Hub's.
const FAMILIES: [(&str, &str); 4] =
    [("llama", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3"), (GEMMA_FILE, GEMMA)];

/// The family whose files hold norms with the 1 that the Hub's leave out.
const GEMMA: &str = "gemma3_text";
const GEMMA_FILE: &str = "gemma3";
/// Its files leave out that one layer in so many sees everything.
const GEMMA_PATTERN: usize = 6;
