// What a task declares to read, a body that calls the interface itself gets no address to write through.
use thalweg::prelude::*;

fn submit(rt: &Runtime, x: &Data<f64>) -> Result<TaskId, SubmitError> {
    rt.task("writes", (x.input(),)).cuda(|cx, (mut x,)| _ = cx.ptr_mut(&mut x)).submit()
}

fn main() {
    let _ = submit;
}
