//! Programs with tasks that span the devices of a unit: raw bodies, devices without peer access, and device loss.

use super::programs::{kind, with_units};
use thalweg::error::FailureReason;
use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Launcher, Program, Read, Write};
use thalweg::prelude::*;

const TEXT: &str = "
    KERNEL(64, 1, 1) mixed(IN(UINT64, x, n), INOUT(UINT64, y, n), UINT64 salt, int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = y[i] * 31 + x[i] + salt;
    }
";
// SAFETY: the kernel compares its index with the size that its signature declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("across.cl", TEXT) };
static MIX: Kernel<(Read<u64>, Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "mixed");

const N: usize = 100;

fn launch(
    k: &mut Launcher<'_>,
    x: &DeviceView<'_, u64>,
    y: &mut DeviceViewMut<'_, u64>,
    salt: u64,
) -> Result<(), DeviceError> {
    let n = x.len().min(y.len());
    k.launch(&MIX, n, (x, y, salt, n as i32))
}

/// Submits `y ← 31 y + x + salt`, part by part.
fn mix(rt: &Runtime, x: &Data<u64>, y: &Data<u64>, size: usize, salt: u64) {
    let parts: Vec<_> = x.blocks(size).iter().zip(&y.blocks(size)).map(|(x, y)| (x.input(), y.inout())).collect();
    rt.task("mix", parts)
        .cpu(move |_, parts| {
            for (x, y) in parts {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = mixed(*x, *y, salt));
            }
        })
        .gpu(move |k, parts| {
            let mut parts = parts.into_iter().enumerate();
            parts.try_for_each(|(part, (x, mut y))| launch(k.on_part(part)?, &x, &mut y, salt))
        })
        .across_devices()
        .submit()
        .unwrap();
}

fn mixed(x: u64, y: u64, salt: u64) -> u64 {
    y.wrapping_mul(31).wrapping_add(x).wrapping_add(salt)
}

/// With peer access, a kernel reads another device's memory in place; without it, such a launch is refused.
#[test]
#[ignore = "run on a stand-in by another test"]
fn peers() {
    let rt = with_units(&format!("1:{}:2", kind()));
    let (x, y) = (rt.data((0..N as u64).collect::<Vec<_>>()), rt.data(vec![1u64; N]));
    let are_peers = std::env::var("STANDIN_PEERS").is_err();
    let parts: Vec<_> = x.blocks(N / 2).iter().zip(&y.blocks(N / 2)).map(|(x, y)| (x.input(), y.inout())).collect();
    rt.task("others", parts)
        .gpu(move |k, parts| {
            let (x, y): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            for (part, mut y) in y.into_iter().enumerate() {
                assert!(k.on_part(part)?.reaches(&x[part]));
                assert_eq!(k.reaches(&x[1 - part]), are_peers);
                launch(k, &x[1 - part], &mut y, 5)?;
            }
            Ok::<(), DeviceError>(())
        })
        .across_devices()
        .submit()
        .unwrap();
    if are_peers {
        let expected: Vec<_> = (0..N).map(|i| mixed(((i + N / 2) % N) as u64, 1, 5)).collect();
        assert_eq!(rt.take(y).unwrap(), expected);
        return;
    }
    let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the launch should have been refused") };
    let FailureReason::Device(error) = failures[0].reason() else { panic!("{failures:?}") };
    let expected = "cannot launch kernel `mixed`: an argument is in the memory of another part's device, which this \
                    device cannot reach; try a region of the part itself, which is copied";
    assert_eq!(error.to_string(), expected);
    // The enqueued kernels are abandoned. The devices keep working and copy through the host.
    rt.clear(y.all()).unwrap();
    rt.task("fill", (y.output(),)).gpu(|_, _| ()).submit().unwrap();
    rt.task("fill", (y.output(),)).host(|_, (y,)| y.fill(1)).submit().unwrap();
    mix(&rt, &x, &y, N / 2, 3);
    mix(&rt, &x, &y, N / 5, 4);
    let expected: Vec<_> = (0..N as u64).map(|i| mixed(i, mixed(i, 1, 3), 4)).collect();
    assert_eq!(rt.take(y).unwrap(), expected);
}

/// Many tasks across parts of all sizes, with a device that is lost at some point.
#[test]
#[ignore = "run on a stand-in by another test"]
fn loss() {
    let rt = with_units(&std::env::var("STANDIN_MACHINE").unwrap());
    let x = rt.data((0..N as u64).collect::<Vec<_>>());
    let y: Vec<_> = (0..6).map(|n| rt.data(vec![n as u64; N])).collect();
    for salt in 0..40 {
        y.iter().enumerate().for_each(|(n, y)| mix(&rt, &x, y, [50, 100, 20, 34, 25, 10][n], salt));
        if salt % 10 == 9 {
            y.iter().for_each(|y| _ = rt.read(y)); // these reads also copy data to the host
        }
    }
    let ended = rt.wait();
    let mut lost = 0;
    for (n, y) in (0..).zip(&y) {
        match rt.read(y) {
            Ok(found) => {
                let expected = |i| (0..40).fold(n, |y, salt| mixed(i, y, salt));
                assert_eq!(found, (0..N as u64).map(expected).collect::<Vec<_>>());
            }
            Err(error) => {
                assert!(error.to_string().contains("lost"), "{error}");
                lost += 1;
            }
        }
    }
    assert!(ended.is_err() || lost == 0, "the loss must be reported");
    let has_shown = ended.is_err();
    // The rest of the machine keeps working: the other device, and the cores if there are any.
    if y.iter().all(|y| rt.clear(y.all()).is_ok()) {
        let fill = |y: &Data<u64>| rt.task("fill", (y.output(),)).host(|_, (y,)| y.fill(1)).submit().unwrap();
        y.iter().for_each(|y| _ = fill(y));
        y.iter().for_each(|y| mix(&rt, &x, y, 50, 7));
        if rt.wait().is_ok() {
            let expected: Vec<_> = (0..N as u64).map(|i| mixed(i, 1, 7)).collect();
            for y in y {
                match rt.take(y) {
                    Ok(found) => assert_eq!(found, expected),
                    // One device is lost, once. If the loss was not noticed earlier, it may only be noticed during a
                    // copy to the host. Data that was only on this device is lost.
                    Err(error) => {
                        assert!(!has_shown && error.to_string().contains("lost"), "{error}");
                        let y = error.into_data();
                        rt.clear(y.all()).unwrap();
                        assert_eq!(rt.take(y).unwrap(), [0; N]);
                    }
                }
            }
        }
    }
}

/// A body that calls the interface itself on both devices, where each stream must have the context of its own device.
#[test]
#[ignore = "run on a stand-in by another test"]
fn raw() {
    let rt = with_units(&format!("1:{}:2", kind()));
    let (x, y) = (rt.data((0..N as u64).collect::<Vec<_>>()), rt.zeros::<u64, _>(N));
    for _ in 0..20 {
        let parts: Vec<_> = x.blocks(20).iter().zip(&y.blocks(20)).map(|(x, y)| (x.input(), y.output())).collect();
        macro_rules! body {
            () => {
                |cx, parts| {
                    let mut streams = Vec::new();
                    for (part, (x, mut y)) in parts.into_iter().enumerate() {
                        cx.on_part(part)?;
                        assert_eq!(cx.device(), part as i32 % 2);
                        streams.push(cx.stream());
                        let handle = cx.keep(|stream| Ok::<_, DeviceError>(stream.addr()))?;
                        assert_eq!(*handle, streams[part].addr(), "each stream has its own handle");
                        let (to, from) = (cx.ptr_mut(&mut y), cx.ptr(&x));
                        // SAFETY: the task reads `x` and writes `y`, and both have the same length, so the copy is in
                        // bounds.
                        assert_eq!(unsafe { super::raw::enqueue_copy(to, from, x.len(), cx.stream()) }, 0);
                    }
                    assert!(streams.iter().zip(&streams[2..]).all(|(a, b)| a == b) && streams[0] != streams[1]);
                    assert!(cx.on_part(5).is_err());
                    Ok::<(), DeviceError>(())
                }
            };
        }
        let task = rt.task("copies", parts);
        match kind().as_str() {
            "CUDA" => task.cuda(body!()).across_devices().submit().unwrap(),
            _ => task.hip(body!()).across_devices().submit().unwrap(),
        };
        rt.task("next", (y.input(), x.output())).cpu(|_, _| ()).gpu(|_, _| ()).on_device(DeviceId(1)).submit().unwrap();
        rt.task("back", (y.input(), x.output()))
            .host(|_, (y, x)| x.iter_mut().zip(y).for_each(|(x, y)| *x = y + 1))
            .submit()
            .unwrap();
    }
    assert_eq!(rt.take(x).unwrap(), (20..N as u64 + 20).collect::<Vec<_>>());
}
