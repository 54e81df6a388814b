//! Runtimes with devices that are abandoned while bodies run: all waits return, dropping the runtime waits for nothing,
//! and the bodies keep their memory, on the host and on the device.

use crate::common::{accelerated, gate, watched};
use crate::{AXPY, FILL};
use std::sync::mpsc::channel;
use thalweg::error::RunError;
use thalweg::kernel::{DeviceViewMut, Launcher};
use thalweg::prelude::*;

const UNITS: &str = "1:CPU:1,1:OPENCL:1";

fn assert_abandoned<T: std::fmt::Debug>(result: Result<T, RunError>) {
    assert!(matches!(result, Err(RunError::Refused(SubmitError::Abandoned))), "{result:?}");
}

#[test]
fn abandoned_body_on_a_device_still_enqueues_its_kernel() {
    watched("on device", || {
        let Some(builder) = accelerated(UNITS) else { return };
        let rt = builder.report_stalls_after(None).build().unwrap();
        let (x, y) = (rt.data(vec![1.0; 1000]), rt.data(vec![2.0; 1000]));
        let ((open, opened), (begin, begun), (end, ended)) = (gate(), channel(), channel());
        rt.task("first", x.inout()).gpu(|k, mut x| k.launch(&FILL, x.len(), (&mut x, 3.0, 1000))).submit().unwrap();
        let endless = move |k: &mut Launcher<'_>, mut x: DeviceViewMut<'_, f64>| {
            begin.send(()).unwrap();
            opened();
            let launched = k.launch(&FILL, x.len(), (&mut x, 4.0, 1000));
            end.send(launched.is_ok()).unwrap();
            launched
        };
        rt.task("endless", x.inout()).gpu(endless).submit().unwrap();
        rt.task("after", (x.input(), y.inout()))
            .gpu(|k, (x, mut y)| k.launch(&AXPY, x.len(), (1.0, &x, &mut y, 1000)))
            .submit()
            .unwrap();
        begun.recv().unwrap();
        std::thread::scope(|threads| {
            let waits = [threads.spawn(|| rt.wait()), threads.spawn(|| rt.read(&y).map(drop))];
            rt.abandon().unwrap();
            waits.into_iter().for_each(|wait| assert_abandoned(wait.join().unwrap()));
        });
        drop((x, y));
        drop(rt);
        drop(open);
        assert!(ended.recv().unwrap(), "the device's memory is still the body's");
    });
}

#[test]
fn abandoned_body_on_a_core_keeps_data_that_was_on_a_device() {
    watched("on core", || {
        let Some(builder) = accelerated(UNITS) else { return };
        let folder = tempfile::tempdir().unwrap();
        let rt = builder.report_stalls_after(None).trace(folder.path().join("run.thw")).build().unwrap();
        let (x, y) = (rt.data(vec![1.0; 1000]), rt.data(vec![2.0; 1000]));
        let ((open, opened), (begin, begun), (end, ended)) = (gate(), channel(), channel());
        rt.task("fill", x.output()).gpu(|k, mut x| k.launch(&FILL, x.len(), (&mut x, 3.0, 1000))).submit().unwrap();
        let endless = move |_: &thalweg::Context, x: &mut [f64]| {
            begin.send(()).unwrap();
            opened();
            x.iter_mut().for_each(|x| *x += 1.0);
            end.send(x.iter().sum::<f64>()).unwrap();
        };
        rt.task("endless", x.inout()).cpu(endless).submit().unwrap();
        begun.recv().unwrap();
        for _ in 0..10 {
            rt.task("busy", y.inout()).gpu(|k, mut y| k.launch(&FILL, y.len(), (&mut y, 5.0, 1000))).submit().unwrap();
        }
        assert_eq!(rt.read(&y).unwrap(), [5.0; 1000], "the device works on");
        rt.task("busy", y.inout()).gpu(|k, mut y| k.launch(&FILL, y.len(), (&mut y, 6.0, 1000))).submit().unwrap();
        rt.task("after", x.inout()).gpu(|k, mut x| k.launch(&FILL, x.len(), (&mut x, 0.0, 1000))).submit().unwrap();
        rt.abandon().unwrap();
        assert_abandoned(rt.wait());
        drop((x, y));
        drop(rt);
        drop(open);
        assert_eq!(ended.recv().unwrap(), 4000.0);
    });
}
