//! Graphs of small programs, recorded by the runtime.

use crate::Result;
use std::path::Path;
use std::process::{Command, Stdio};
use thalweg::prelude::*;

pub(crate) fn draw(folder: &Path) -> Result<()> {
    for (name, program) in
        [("reduction", reduction as fn(&Runtime) -> Result<()>), ("stencil", stencil), ("factor", factor)]
    {
        let rt = Runtime::builder().compute_units("1:CPU:1").record_graph(true).build()?;
        program(&rt)?;
        rt.wait()?;
        let graph = rt.graph().expect("the graph is recorded");
        println!("{name}: {} tasks on the longest path, {} side by side", graph.critical_path(), graph.width());
        let (dot, svg) = (folder.join(name).with_extension("dot"), folder.join(name).with_extension("svg"));
        std::fs::write(&dot, graph.to_dot())?;
        match Command::new("dot").arg("-Tsvg").arg(&dot).arg("-o").arg(&svg).stdin(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("dot {}: {status}", dot.display()).into()),
            Err(error) => println!("{name}: dot is not installed ({error}): skipped"),
        }
    }
    Ok(())
}

/// The sums of `first_task.md`: three parts.
fn reduction(rt: &Runtime) -> Result<()> {
    let (x, total) = (rt.data(vec![1.0; 12]), rt.scalar(0.0));
    for part in blocks(12, 4) {
        rt.task("halve", (x.slice(part.clone()).inout(),)).cpu(|_, _| ()).submit()?;
        rt.task("sum", (x.slice(part).input(), total.reduction(Sum))).cpu(|_, _| ()).submit()?;
    }
    rt.task("print", (total.input(),)).cpu(|_, _| ()).submit()?;
    Ok(())
}

/// The stencil of `regions.md`: three steps on four blocks.
fn stencil(rt: &Runtime) -> Result<()> {
    let n = 16;
    let (mut old, mut new) = (rt.data(vec![0.0; n + 2]), rt.data(vec![0.0; n + 2]));
    for step in 1..=3 {
        for part in blocks(n, 4) {
            let name = format!("step {step}, {}..{}", part.start, part.end);
            let accesses =
                (old.slice(part.start..part.end + 2).input(), new.slice(part.start + 1..part.end + 1).output());
            rt.task(name, accesses).cpu(|_, _| ()).submit()?;
        }
        std::mem::swap(&mut old, &mut new);
    }
    Ok(())
}

/// A Cholesky factorization in four by four tiles.
fn factor(rt: &Runtime) -> Result<()> {
    let tiles: Vec<Vec<_>> = (0..4).map(|_| (0..4).map(|_| rt.scalar(0.0)).collect()).collect();
    for k in 0..4 {
        rt.task("potrf", (tiles[k][k].inout(),)).cpu(|_, _| ()).submit()?;
        for row in &tiles[k + 1..] {
            rt.task("trsm", (tiles[k][k].input(), row[k].inout())).cpu(|_, _| ()).submit()?;
        }
        for i in k + 1..4 {
            rt.task("syrk", (tiles[i][k].input(), tiles[i][i].inout())).cpu(|_, _| ()).submit()?;
            for j in k + 1..i {
                let (left, right) = (tiles[i][k].input(), tiles[j][k].input());
                rt.task("gemm", (left, right, tiles[i][j].inout())).cpu(|_, _| ()).submit()?;
            }
        }
    }
    Ok(())
}
