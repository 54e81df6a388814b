//! The targets: for each reader, valid inputs and a function that reads any bytes and checks the reader's promises.

mod blocks;
mod files;
mod kernels;
mod texts;

/// A reader under test.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) is_text: bool,
    /// Returns inputs that are accepted.
    pub(crate) valid: fn() -> Vec<Vec<u8>>,
    /// Reads any bytes. Panics if a promise is broken.
    pub(crate) run: fn(&[u8]),
}

/// All targets that need nothing but the library's public items.
pub(crate) const ALL: &[Target] = &[
    Target { name: "units", is_text: true, valid: texts::valid_units, run: texts::units },
    Target { name: "places", is_text: true, valid: texts::valid_places, run: texts::places },
    Target { name: "machines", is_text: true, valid: texts::valid_machines, run: texts::machines },
    Target { name: "kernels", is_text: true, valid: kernels::valid_kernels, run: kernels::kernels },
    Target { name: "modules", is_text: true, valid: kernels::valid_modules, run: kernels::modules },
    Target { name: "loops", is_text: true, valid: kernels::valid_loops, run: kernels::loops },
    Target { name: "traces", is_text: false, valid: files::valid_traces, run: files::traces },
    Target { name: "npy", is_text: false, valid: files::valid_npy, run: files::npy },
    Target { name: "blocks", is_text: false, valid: blocks::valid, run: blocks::run },
];

/// Calls `read` with the bytes as a text, if they are one.
fn with_text(bytes: &[u8], read: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        read(text);
    }
}

fn owned(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
