// Scratch memory belongs to one task and cannot be kept for another.
use std::sync::Mutex;
use thalweg::kernel::Scratch;
use thalweg::prelude::*;

static KEPT: Mutex<Option<Scratch<'static, f64>>> = Mutex::new(None);

fn main() {
    let rt = Runtime::builder().build().unwrap();
    rt.task("keep", ())
        .gpu(|k, ()| -> Result<(), DeviceError> {
            *KEPT.lock().unwrap() = Some(k.scratch(64)?);
            Ok(())
        })
        .submit()
        .unwrap();
}
