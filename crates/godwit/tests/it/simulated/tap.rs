//! What the node logs on this thread.

use std::cell::RefCell;
use std::sync::Once;

use log::{LevelFilter, Log, Metadata, Record};

thread_local! {
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

struct Tap;

impl Log for Tap {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.push(format!("{:5} {}", record.level(), record.args()));
            }
        });
    }

    fn flush(&self) {}
}

/// From now on the lines of this thread are kept.
pub(super) fn open() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        log::set_logger(&Tap).expect("no other test of this program sets a logger");
        log::set_max_level(LevelFilter::Debug);
    });
    LINES.set(Some(Vec::new()));
}

/// The lines since the last call.
pub(super) fn take() -> Vec<String> {
    LINES.with_borrow_mut(|lines| lines.as_mut().map(std::mem::take).unwrap_or_default())
}
