//! Arrays in files of the user: they are read by rows, leave for their file, and bad files are refused.

use crate::common::builder;
use std::fs;
use std::path::PathBuf;
use thalweg::ArrayFile;
use thalweg::prelude::*;

/// A path that no other test uses; the file is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("thalweg-{}-{name}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the text of an error.
fn words<T, E: std::fmt::Display>(refused: Result<T, E>) -> String {
    refused.err().expect("it is refused").to_string()
}

/// Builds a runtime with this many bytes of host memory.
fn limited(bytes: u64) -> Runtime {
    builder("2:CPU:1", false).host_memory(bytes).spill_to(std::env::temp_dir()).build().unwrap()
}

#[test]
fn array_larger_than_memory_is_updated_in_its_file() {
    const ROWS: usize = 64;
    let path = Temporary::new("update.npy");
    drop(ArrayFile::<u64, Ix2>::create(&path.0, [ROWS, 512]).unwrap());
    for round in 0..3u64 {
        // 256 KiB in parts of 32 KiB; two parts fit.
        let rt = limited(1 << 16);
        let file = ArrayFile::<u64, Ix2>::open(&path.0).unwrap();
        let parts: Vec<_> = blocks(ROWS, 8).map(|rows| rt.open_rows(&file, rows).unwrap()).collect();
        for _ in 0..2 {
            for (n, part) in (0..).zip(&parts) {
                let add = move |_: &thalweg::Context, mut part: ndarray::ArrayViewMut2<'_, u64>| part += n + 1;
                rt.task("add", part.inout()).cpu(add).submit().unwrap();
            }
        }
        for part in &parts {
            part.save(&rt).unwrap();
        }
        rt.wait().unwrap();
        assert!(rt.statistics().evictions > 6, "{}", rt.statistics());
        let bytes = fs::read(&path.0).unwrap();
        let elements: &[u64] = bytemuck::cast_slice(&bytes[128..]);
        for (index, element) in elements.iter().enumerate() {
            assert_eq!(*element, 2 * (round + 1) * (index as u64 / (8 * 512) + 1), "element {index}");
        }
        assert_eq!(elements.len(), ROWS * 512);
    }
}

#[test]
fn raw_file_is_an_array_from_its_first_byte() {
    let path = Temporary::new("raw");
    fs::write(&path.0, bytemuck::cast_slice(&[1.5f32, 2.5, 3.5])).unwrap();
    let rt = limited(1 << 16);
    let file = ArrayFile::<f32, Ix1>::open_raw(&path.0, 3).unwrap();
    let part = rt.open_rows(&file, 1..3).unwrap();
    assert_eq!(rt.read(part.all()).unwrap(), [2.5, 3.5]);
    let refusal = words(rt.open_rows(&file, 0..2));
    assert!(
        refusal.ends_with("rows 1..3 are a data object already, which rows 0..2 overlap; try that one, or opening the file again after `save`"),
        "{refusal}"
    );
    assert!(words(rt.open_rows(&file, 2..4)).ends_with("it has no rows 2..4; try rows inside 0..3"));
    assert_eq!(rt.open_rows(&file, 3..3).unwrap().len(), 0);
    let error = words(ArrayFile::<f32, Ix1>::open_raw(&path.0, 4));
    assert!(error.ends_with("it has 12 bytes, and an array of shape [4] needs 16; try its shape"), "{error}");
    let error = words(ArrayFile::<f32, Ix2>::open_raw(&path.0, [usize::MAX, 2]));
    assert!(error.contains("needs more than any file has"), "{error}");
}

#[test]
fn bad_file_is_refused() {
    let path = Temporary::new("bad.npy");
    drop(ArrayFile::<f64, Ix2>::create(&path.0, [4, 2]).unwrap());
    let error = words(ArrayFile::<f32, Ix2>::open(&path.0));
    assert!(error.ends_with("its elements are `<f8`, not `<f4`; try `astype` before saving it"), "{error}");
    let error = words(ArrayFile::<f64, Ix1>::open(&path.0));
    assert!(error.contains("has 2 dimensions, not 1; try"), "{error}");
    let whole = fs::read(&path.0).unwrap();
    for len in [0, 5, 9, 100, whole.len() - 1] {
        fs::write(&path.0, &whole[..len]).unwrap();
        let error = words(ArrayFile::<f64, Ix2>::open(&path.0));
        assert!(error.starts_with("cannot open ") && error.contains("; try "), "{len}: {error}");
    }
    let big_endian = String::from_utf8_lossy(&whole[10..]).replace("<f8", ">f8");
    fs::write(&path.0, [&whole[..10], big_endian.as_bytes()].concat()).unwrap();
    assert!(words(ArrayFile::<f64, Ix2>::open(&path.0)).contains("`>f8`, not `<f8`"));
    // No element, but rows whose bytes cannot be counted.
    let huge = String::from_utf8_lossy(&whole[10..whole.len() - 64]).replace("(4, 2,)", "(0, 9223372036854775807,)");
    let length = (huge.len() as u16).to_le_bytes();
    fs::write(&path.0, [&whole[..8], &length, huge.as_bytes()].concat()).unwrap();
    let error = words(ArrayFile::<f64, Ix2>::open(&path.0));
    assert!(error.ends_with("needs more than any file has; try its shape"), "{error}");
    fs::write(&path.0, &whole).unwrap();
    let unlimited = builder("1:CPU:1", false).build().unwrap();
    let error = words(unlimited.open_array::<f64, Ix2>(&path.0));
    assert!(error.ends_with("the runtime keeps all arrays in memory; try `host_memory` and `spill_to`"), "{error}");
}

#[test]
fn file_truncated_after_it_was_opened_fails_the_task_that_needs_it() {
    let path = Temporary::new("truncated");
    fs::write(&path.0, [7; 4096]).unwrap();
    let rt = limited(1 << 16);
    let file = ArrayFile::<u8, Ix1>::open_raw(&path.0, 4096).unwrap();
    let [first, last] = [0..2048, 2048..4096].map(|rows| rt.open_rows(&file, rows).unwrap());
    fs::OpenOptions::new().write(true).open(&path.0).unwrap().set_len(3000).unwrap();
    let error = words(rt.read(last.all()));
    let found = format!("file {}: read failed (system error 0: the file ends before the content)", path.0.display());
    assert!(error.contains(&found), "{error}");
    assert_eq!(rt.read(first.all()).unwrap(), vec![7; 2048], "the other rows are unaffected");
}

#[test]
fn rows_that_exceed_host_memory_are_refused() {
    let path = Temporary::new("large.npy");
    let rt = limited(1 << 16);
    // A sparse file that neither the disk nor memory could hold.
    drop(ArrayFile::<f64, Ix1>::create(&path.0, 1 << 37).unwrap());
    let error = words(rt.open_array::<f64, Ix1>(&path.0));
    let problem =
        "rows 0..137438953472 have 1099511627776 bytes, and host memory is limited to 65536; try fewer rows at a time";
    assert!(error.ends_with(problem), "{error}");
    let file = ArrayFile::<f64, Ix1>::open(&path.0).unwrap();
    assert!(rt.open_rows(&file, 0..(1 << 13) + 1).is_err());
    let rows = rt.open_rows(&file, 1..(1 << 13) + 1).unwrap();
    assert_eq!(rt.read(rows.slice(0..2)).unwrap(), [0.0; 2]);
}

#[test]
fn refused_file_comes_with_a_fitting_hint() {
    let cases = [
        ("/dev/full", "a smaller array, or another file system"),
        ("/dev/null", "a regular file"),
        ("/nonexistent/x.npy", "a file that this process may read and write"),
    ];
    for (path, hint) in cases.into_iter().filter(|_| cfg!(target_os = "linux")) {
        let error = words(ArrayFile::<f64, Ix1>::create(path, 8));
        assert!(
            error.starts_with(&format!("cannot create {path}: ")) && error.ends_with(&format!("; try {hint}")),
            "{error}"
        );
    }
}
