//! See the library: the binary is only its entry.

fn main() -> std::process::ExitCode {
    fathom::main()
}
