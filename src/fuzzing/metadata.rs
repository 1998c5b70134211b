//! GGUF headers whose entries have every kind of value: bytes choose the key, the kind and the value.

/// A value as a header should have it.
enum Usual {
    Bool(bool),
    Int(u32),
    Text(&'static str),
    Texts(&'static [&'static str]),
    Ints(&'static [u32]),
}

/// A header that is read without complaint.
const USUAL: [(&str, Usual); 17] = [
    ("general.architecture", Usual::Text("llama")),
    ("llama.block_count", Usual::Int(1)),
    ("llama.context_length", Usual::Int(16)),
    ("llama.embedding_length", Usual::Int(8)),
    ("llama.feed_forward_length", Usual::Int(8)),
    ("llama.attention.head_count", Usual::Int(2)),
    ("llama.attention.head_count_kv", Usual::Int(2)),
    ("llama.attention.key_length", Usual::Int(4)),
    ("tokenizer.ggml.model", Usual::Text("gpt2")),
    ("tokenizer.ggml.pre", Usual::Text("smollm")),
    ("tokenizer.ggml.tokens", Usual::Texts(&["a", "b", "ab", "<s>"])),
    ("tokenizer.ggml.token_type", Usual::Ints(&[1, 1, 1, 3])),
    ("tokenizer.ggml.merges", Usual::Texts(&["a b"])),
    ("tokenizer.ggml.eos_token_id", Usual::Int(3)),
    ("tokenizer.ggml.bos_token_id", Usual::Int(3)),
    ("tokenizer.ggml.add_bos_token", Usual::Bool(false)),
    ("tokenizer.chat_template", Usual::Text("{{ messages[0].content }}")),
];
/// Keys that only some files have.
const OTHERS: [&str; 8] = [
    "general.alignment",
    "general.file_type",
    "llama.rope.freq_base",
    "llama.rope.scaling.type",
    "llama.attention.layer_norm_rms_epsilon",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.add_space_prefix",
];
/// Values at the edges, of which a kind takes the low bytes.
const EDGES: [u64; 10] =
    [0, 1, 2, 7, 255, 1 << 31, (1 << 32) - 1, 1 << 63, u64::MAX, 0x7ff0_0000_0000_0000];
/// The kind of texts.
const TEXT: u32 = 8;
/// The kind of arrays.
const ARRAY: u32 = 9;
/// Bytes of a value of each other kind.
const WIDTHS: [usize; 13] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
/// Most arrays inside one another that are made.
const DEEPEST: u8 = 64;

/// A file with the usual header, in which every four bytes of `data` put another value: key, kind, value, count.
pub(super) fn file(data: &[u8]) -> Vec<u8> {
    let mut values: Vec<(&str, Vec<u8>)> =
        USUAL.iter().map(|(key, value)| (*key, usual(value))).collect();
    for four in data.chunks_exact(4) {
        let key = usize::from(four[0]) % (USUAL.len() + OTHERS.len());
        let value = made(u32::from(four[1]) % 14, four[2], four[3]);
        match values.get_mut(key) {
            // The highest bit: a second entry of the key.
            Some((_, entry)) if four[0] < 128 => *entry = value,
            _ => values
                .push((USUAL.get(key).map_or_else(|| OTHERS[key - USUAL.len()], |u| u.0), value)),
        }
    }
    let mut out = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    out.extend((values.len() as u64).to_le_bytes());
    for (key, value) in values {
        out.extend(text(key));
        out.extend(value);
    }
    // One tensor, from whose shape the header takes the size of the vocabulary.
    out.extend(text("token_embd.weight"));
    out.extend(2u32.to_le_bytes());
    out.extend([8u64, 4].map(u64::to_le_bytes).concat());
    out.extend([0; 4 + 8]);
    out.resize(out.len().next_multiple_of(32) + 4 * 8 * 4, 0);
    out
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn array<T>(kind: u32, items: &[T], bytes: impl Fn(&T) -> Vec<u8>) -> Vec<u8> {
    let mut out = [ARRAY.to_le_bytes(), kind.to_le_bytes()].concat();
    out.extend((items.len() as u64).to_le_bytes());
    items.iter().for_each(|item| out.extend(bytes(item)));
    out
}

fn usual(value: &Usual) -> Vec<u8> {
    const INT: u32 = 4;
    const BOOL: u32 = 7;
    match value {
        Usual::Bool(yes) => [&BOOL.to_le_bytes()[..], &[u8::from(*yes)]].concat(),
        Usual::Int(number) => [INT.to_le_bytes(), number.to_le_bytes()].concat(),
        Usual::Text(own) => [TEXT.to_le_bytes().to_vec(), text(own)].concat(),
        Usual::Texts(items) => array(TEXT, items, |item| text(item)),
        Usual::Ints(items) => array(INT, items, |item| item.to_le_bytes().to_vec()),
    }
}

/// A value of `kind`: a number of the edges, a text of some length, an array of such or of arrays.
fn made(kind: u32, value: u8, count: u8) -> Vec<u8> {
    let edge = EDGES[usize::from(value) % EDGES.len()];
    let mut out = kind.to_le_bytes().to_vec();
    match kind {
        TEXT if value < 250 => out.extend(text(&"ab ".repeat(usize::from(count)))),
        // A length that the file has not.
        TEXT => out.extend(edge.to_le_bytes()),
        ARRAY if value >= 250 => {
            for _ in 1..count.min(DEEPEST) {
                out.extend([ARRAY.to_le_bytes(), [1, 0, 0, 0], [0; 4]].concat());
            }
            out.extend([ARRAY.to_le_bytes(), [0; 4], [0; 4]].concat());
        }
        ARRAY if value >= 245 => {
            out.extend((u32::from(count) % 14).to_le_bytes());
            out.extend(edge.to_le_bytes());
        }
        ARRAY => {
            let items = vec![(); usize::from(count)];
            let kind = u32::from(value) % 13;
            return array(kind, &items, |()| match kind {
                TEXT => text("a"),
                ARRAY => [[4, 0, 0, 0], [0; 4], [0; 4]].concat(),
                other => edge.to_le_bytes()[..WIDTHS[other as usize]].to_vec(),
            });
        }
        // A kind that there is not.
        13.. => {}
        other => out.extend(&edge.to_le_bytes()[..WIDTHS[other as usize]]),
    }
    out
}
