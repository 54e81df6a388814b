// The parameters of a kernel in another language are read from its text: this one only reads `x`.
use thalweg::kernel::{Module, ModuleKernel, Read, Write};

const TEXT: &str = r#"extern "C" __global__ void add(const float *x, float *y, int n) {}"#;
const MODULE: Module = Module::new("add.cu").cuda(TEXT);
static ADD: ModuleKernel<(Write<f32>, Read<f32>, i32)> = ModuleKernel::new(&MODULE, "add", [64, 1, 1]);

fn main() {
    println!("{}", ADD.name());
}
