//! Results as futures: executors, wakers, and futures that are dropped.

use super::results::{Counted, bell, block_on, counter};
use crate::common::{MIXES, builder, for_each_mix, gate, runtime, watched};
use std::pin::pin;
use std::task::{Context as Polled, Poll};
use thalweg::prelude::*;

#[test]
fn result_can_be_awaited_with_any_executor() {
    for units in MIXES {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                let rt = builder(units, hosts).build().unwrap();
                let x = rt.data(vec![1u64; 100]);
                let sum = rt.task("sum", x.input()).returns(|_, x| x.iter().sum::<u64>()).submit().unwrap();
                let both = async {
                    let sum = sum.await?;
                    let double = rt.task("double", ()).returns(move |_, ()| 2 * sum).submit()?;
                    Ok::<_, RunError>((sum, double.await?))
                };
                assert_eq!(block_on(both).unwrap(), (100, 200));
                let fails = rt.task("fails", ()).try_returns(|_, ()| Err::<u8, _>("no")).submit().unwrap();
                assert!(matches!(block_on(fails), Err(RunError::NoResult { .. })));
            });
        }
    }
}

#[test]
fn last_waker_is_woken_at_the_tasks_end_and_after_its_readers() {
    watched("await", || {
        let rt = runtime("2:CPU:1");
        let ((open, closed), (open_reader, closed_reader)) = (gate(), gate());
        let number = rt
            .task("number", ())
            .returns(|_, ()| {
                closed();
                7
            })
            .submit()
            .unwrap();
        rt.task("read", number.input()).cpu(move |_, _| closed_reader()).submit().unwrap();
        let handle = number.task();
        let mut future = pin!(number.into_future());
        let ((first, rung_first), (second, rung)) = (bell(), bell());
        assert!(future.as_mut().poll(&mut Polled::from_waker(&first)).is_pending());
        assert!(future.as_mut().poll(&mut Polled::from_waker(&second)).is_pending());
        drop(open);
        rung.recv().unwrap();
        assert!(handle.is_finished());
        assert!(future.as_mut().poll(&mut Polled::from_waker(&second)).is_pending(), "a reader still uses the result");
        drop(open_reader);
        rung.recv().unwrap();
        assert!(matches!(future.as_mut().poll(&mut Polled::from_waker(&second)), Poll::Ready(Ok(7))));
        assert!(rung_first.try_recv().is_err(), "a replaced waker must not be woken");
    });
}

#[test]
fn dropped_future_does_not_cancel_its_task() {
    for_each_mix(|rt| {
        let (drops, dropped) = counter();
        let (open, closed) = gate();
        let body = move |_: &Context, ()| {
            closed();
            Counted(1, drops)
        };
        let number = rt.task("number", ()).returns(body).submit().unwrap();
        let mut future = Box::pin(number.into_future());
        let (waker, _) = bell();
        let opener = std::thread::spawn(move || drop(open));
        let _ = future.as_mut().poll(&mut Polled::from_waker(&waker)); // polled once and then dropped
        drop(future);
        opener.join().unwrap();
        rt.wait().unwrap();
        assert_eq!(dropped(), 1);
    });
}
