//! A failing task: its output is poisoned, tasks that would read it are skipped, everything else continues, and the
//! program then repairs the data.

use thalweg::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = Runtime::builder().build()?;
    let texts = ["4", "five", "6"];
    let numbers = rt.data(vec![0u64; texts.len()]);
    let sum = rt.scalar(0u64);

    for (i, text) in texts.into_iter().enumerate() {
        rt.task("parse", (numbers.slice(i).output(),))
            .cpu(move |_, (number,)| text.parse().map(|parsed| number[0] = parsed))
            .submit()?;
    }
    let add = || {
        rt.task("add", (numbers.input(), sum.output())).cpu(|_, (numbers, sum)| sum[0] = numbers.iter().sum()).submit()
    };
    add()?; // skipped: one of the numbers is missing

    let Err(error) = rt.wait() else { unreachable!("`five` is not a number") };
    println!("{error}");
    assert!(rt.read(&sum).is_err(), "the sum is missing");
    assert_eq!(rt.read(numbers.slice(2))?, [6], "other regions of the same array are intact");

    rt.clear(numbers.slice(1))?; // zero from now on
    add()?;
    println!("without it, the sum is {}", rt.read(&sum)?[0]);
    assert_eq!(rt.read(&sum)?[0], 10);
    Ok(())
}
