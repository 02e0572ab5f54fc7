//! The JSON Schema of scenarios fits every preset.

use std::path::Path;
use std::process::Command;

#[test]
fn every_preset_fits_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let present = Command::new("python3").args(["-c", "import jsonschema, tomllib"]).output();
    if !present.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "python3 with jsonschema is missing; apt-get install python3-jsonschema"
        );
        eprintln!("SKIPPED: python3 with jsonschema is missing; apt-get install python3-jsonschema");
        return;
    }
    let scenarios = std::fs::read_dir(root.join("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    let output = Command::new("python3")
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
