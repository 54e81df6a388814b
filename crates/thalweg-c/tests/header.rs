//! Checks that `include/thalweg.h` is the header of this crate. With `THALWEG_BLESS=1`, writes it.

use std::fs;
use std::path::Path;

#[test]
fn header_is_that_of_the_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join("include/thalweg.h");
    let mut header = Vec::new();
    cbindgen::generate(root).expect("cbindgen can read the crate").write(&mut header);
    let header = String::from_utf8(header).unwrap();
    if std::env::var_os("THALWEG_BLESS").is_some() {
        fs::write(&file, &header).unwrap();
    }
    let present = fs::read_to_string(&file).unwrap_or_default();
    assert!(present == header, "the header is not up to date; try THALWEG_BLESS=1");
}
