//! Files: traces, and arrays of NumPy. Every file is read, read in part, or refused with an error.

use std::fs;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};
use thalweg::ArrayFile;
use thalweg::prelude::*;
use thalweg_trace::Trace;

/// Returns a path of this process's own.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("thalweg-fuzz-{}-{name}", std::process::id()))
}

/// A trace of tasks on cores and on a device.
pub(crate) fn valid_traces() -> Vec<Vec<u8>> {
    let path = path("trace");
    let rt = Runtime::builder().compute_units("2:CPU:1,1:EMU:1").trace(&path).build().expect("the units exist");
    let (x, y) = (rt.data(vec![1.0; 64]), rt.data(vec![0.0; 64]));
    for _ in 0..3 {
        rt.task("copy", (x.input(), y.inout()))
            .host(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y += x))
            .submit()
            .expect("there are units");
        rt.task("scale", (y.slice(8..40).inout(),)).cpu(|_, (y,)| y[0] *= 2.0).submit().expect("there are cores");
    }
    rt.wait().expect("no body fails");
    drop((x, y, rt));
    let bytes = fs::read(&path).expect("the runtime wrote it");
    let _ = fs::remove_file(path);
    vec![bytes]
}

pub(crate) fn traces(bytes: &[u8]) {
    let mut trace = match Trace::from_bytes(bytes) {
        Ok(trace) => trace,
        Err(problem) => return assert!(problem.starts_with("byte "), "{problem}"),
    };
    trace.sort_by_time();
    assert_eq!(trace.ready().len(), trace.tasks.len());
    assert!((0..trace.tasks.len()).map(|task| trace.name(task).len()).sum::<usize>() <= bytes.len() * bytes.len());
}

pub(crate) fn valid_npy() -> Vec<Vec<u8>> {
    let path = path("valid.npy");
    let of_shape = |shape: [usize; 2]| {
        drop(ArrayFile::<f64, Ix2>::create(&path, shape).expect("the folder is writable"));
        fs::read(&path).expect("it was created")
    };
    let files = vec![of_shape([3, 5]), of_shape([0, 7]), of_shape([1, 1]), of_shape([4, 0])];
    let _ = fs::remove_file(&path);
    files
}

/// A file that is accepted has all its elements, and they are read as they are.
pub(crate) fn npy(bytes: &[u8]) {
    static RUNTIME: LazyLock<Mutex<Runtime>> = LazyLock::new(|| {
        let builder = Runtime::builder().compute_units("1:CPU:1").host_memory(1 << 20).spill_to(std::env::temp_dir());
        Mutex::new(builder.build().expect("the folder is writable"))
    });
    let rt = RUNTIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let path = path("read.npy");
    fs::write(&path, bytes).expect("the folder is writable");
    let file = ArrayFile::<f64, Ix2>::open(&path);
    let _ = fs::remove_file(&path);
    let file = match file {
        Ok(file) => file,
        Err(error) => return assert!(error.to_string().starts_with("cannot open "), "{error}"),
    };
    let [rows, columns] = file.shape().try_into().expect("two dimensions");
    let size = rows * columns * 8;
    let array = rt.open_rows(&file, 0..rows).expect("the rows are free");
    let read = rt.read(&*array).expect("the file is not changed");
    let found: Vec<u8> = read.iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(found.len(), size);
    assert!(size == 0 || bytes.windows(size).any(|part| part == found), "elements that the file does not have");
}
