//! Fine-tuning: supervised (`sft`) and by verifiable rewards (`rlvr`), over one optimizer step.
//!
//! Nothing here knows the command line or dataset formats.

mod adamw;
mod allocation;
pub mod bench;
pub mod checkpoint;
mod device_link;
mod inventory;
pub mod memory;
mod order;
pub mod rlvr;
mod schedule;
pub mod sft;
mod shared;
mod step;
mod trials;

pub use adamw::{AdamW, AdamWConfig};
pub use allocation::{Known, PromptAllocation};
pub use device_link::DeviceLink;
pub use schedule::{Schedule, Scheduler};
pub use trials::{PromptTrials, Trials};
