//! The message of a panic, which ends the module: the page reads it where a call stops.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Records the messages of panics from now on.
pub(crate) fn record() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            MESSAGE.set(panic.to_string().into_bytes());
        }));
    });
}

/// How many bytes the message has; none where nothing failed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn failure_length() -> usize {
    MESSAGE.with_borrow(Vec::len)
}

/// Where the message begins.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn failure_text() -> *const u8 {
    MESSAGE.with_borrow(|message| message.as_ptr())
}
