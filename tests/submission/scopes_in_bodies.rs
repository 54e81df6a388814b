//! Scopes that bodies open, and the views that they lend.

use crate::common::{MIXES, builder, for_each_free_mix, watched};
use std::sync::Arc;
use thalweg::error::RunError;
use thalweg::prelude::*;

#[test]
fn body_may_open_its_own_scope() {
    for units in MIXES {
        // Skip hosted units of several cores, because their bodies run on threads that cannot do anything else while
        // they wait.
        for hosts in [false, true].into_iter().filter(|hosts| !hosts || units != "1:CPU:2") {
            watched(units, move || {
                let rt = Arc::new(builder(units, hosts).detect_conflicts(true).build().unwrap());
                let x = rt.data(vec![1u64; 40]);
                for part in blocks(40, 10) {
                    let inner = rt.clone();
                    // The body lends parts of its view.
                    let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
                        let factor = x.len() as u64;
                        inner
                            .scope(|s| {
                                let x = s.borrow_mut(x);
                                for part in blocks(x.len(), 3) {
                                    let body = |_: &thalweg::Context, (x,): (&mut [u64],)| {
                                        x.iter_mut().for_each(|x| *x += factor)
                                    };
                                    s.task("inner", (x.slice(part).inout(),)).cpu(body).submit()?;
                                }
                                s.task("last", (x.slice(9).inout(),)).cpu(|_, (x,)| x[0] = 0).submit()
                            })?
                            .map_err(RunError::from)
                            .map(drop)
                    };
                    rt.task("outer", (x.slice(part).inout(),)).host(body).submit().unwrap();
                }
                rt.wait().unwrap();
                let x = rt.read(&x).unwrap();
                assert!((0..40).all(|i| x[i] == if i % 10 == 9 { 0 } else { 11 }), "{x:?}");
                assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
            });
        }
    }
}

#[test]
fn scope_in_a_body_may_lend_the_bodys_view() {
    for_each_free_mix(|rt| {
        let x = rt.data(vec![1u64; 64]);
        let parent = rt.task("parent", x.inout()).host(|cx, x| {
            for _ in 0..5 {
                let factor = 2;
                let scoped = cx.scope(|s| {
                    let x = s.borrow_mut(&mut *x);
                    let double = |_: &Context, x: &mut [u64]| x.iter_mut().for_each(|x| *x *= factor);
                    s.for_each("double", x.blocks(8).inout()).cpu(double).submit().unwrap();
                    let nested = |cx: &Context, x: &mut [u64]| {
                        let (one, other) = x.split_at_mut(32);
                        cx.scope(|s| {
                            s.task("one", ()).cpu(|_, ()| one[0] += 1).submit().unwrap();
                            s.task("other", ()).cpu(|_, ()| other[0] += 1).submit().unwrap();
                        })
                    };
                    s.task("nested", x.inout()).host(nested).submit().unwrap();
                });
                scoped.unwrap();
            }
        });
        parent.submit().unwrap();
        let x = rt.take(x).unwrap();
        assert_eq!((x[0], x[32], x[63]), (63, 63, 32));
    });
}

/// If members did not run on the stack of their waiting scope's body, each of them would need another stack.
#[test]
fn members_of_scopes_in_bodies_may_wait() {
    for_each_free_mix(|rt| {
        let (y, rt_of_bodies) = (rt.data(vec![3u64; 4]), rt);
        let sums = std::sync::atomic::AtomicU64::new(0);
        let outer = rt.scope(|s| {
            for _ in 0..8 {
                let body = |_: &Context, ()| {
                    rt_of_bodies.scope(|s| {
                        for _ in 0..4 {
                            let body = |_: &Context, ()| {
                                let sum: u64 = rt_of_bodies.read(&y).unwrap().iter().sum();
                                sums.fetch_add(sum, std::sync::atomic::Ordering::Relaxed);
                            };
                            s.task("reads", ()).host(body).submit().unwrap();
                        }
                    })
                };
                s.task("outer", ()).host(body).submit().unwrap();
            }
        });
        outer.unwrap();
        assert_eq!(sums.into_inner(), 8 * 4 * 12);
    });
}
