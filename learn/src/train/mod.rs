//! Fine-tuning: supervised (`sft`) and by verifiable rewards (`rlvr`), over one optimizer step.
//!
//! Nothing here knows the command line or dataset formats.

mod adamw;
pub mod bench;
pub mod checkpoint;
mod inventory;
pub mod memory;
mod micro_batches;
mod order;
mod rank_shares;
pub mod rlvr;
mod schedule;
pub mod sft;

pub use adamw::{AdamW, AdamWConfig};
pub use schedule::{Schedule, Scheduler};
