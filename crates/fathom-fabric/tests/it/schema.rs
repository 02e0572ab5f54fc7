//! The JSON Schema of scenarios fits every preset.

use std::path::Path;
use std::process::Command;

#[test]
fn every_preset_fits_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // The Python half's own environment has it; elsewhere the system's may.
    let venv = root.join(".venv/bin/python");
    let has_it = |python: &&Path| {
        let output = Command::new(python).args(["-c", "import fastjsonschema, tomllib"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(python) = [venv.as_path(), Path::new("python3")].into_iter().find(has_it) else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "Python with fastjsonschema is missing; make python-dev"
        );
        eprintln!("SKIPPED: Python with fastjsonschema is missing; make python-dev");
        return;
    };
    let scenarios = std::fs::read_dir(root.join("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    let output = Command::new(python)
        .arg(root.join("schema/check_scenarios.py"))
        .args(scenarios.filter(|file| file.extension().is_some_and(|e| e == "toml")))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
