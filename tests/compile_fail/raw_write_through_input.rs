// A body that calls the interface itself gets no pointer to write through for a region that its task only reads.
use thalweg::prelude::*;

fn submit(rt: &Runtime, x: &Data<f64>) -> Result<TaskId, SubmitError> {
    rt.task("writes", (x.input(),)).cuda(|cx, (mut x,)| _ = cx.ptr_mut(&mut x)).submit()
}

fn main() {
    let _ = submit;
}
