//! Whether a reflector stamps our frames, as its first echoes tell.

use fathom_core::sample::Sample;
use fathom_recording::Recorder;

/// The first echo that could have carried stamps tells whether this reflector writes them. Among samples without a header,
/// one that has none tells nothing.
pub(super) fn note(recorder: &mut Recorder, sample: &Sample) -> Result<(), fathom_recording::Error> {
    let tells = |probe: &serde_json::Value| {
        sample.reflector_ns.is_some()
            || probe["sizes"][0].as_u64().is_none_or(|least| least >= fathom_wire::HEADER_LEN as u64)
    };
    if recorder.manifest().reflector.stamps.is_none()
        && sample.rtt_ns.is_some()
        && (sample.size as usize >= fathom_wire::HEADER_LEN || sample.reflector_ns.is_some())
        && tells(&recorder.manifest().probe)
    {
        recorder.amend(|manifest| manifest.reflector.stamps = Some(sample.reflector_ns.is_some()))?;
    }
    Ok(())
}
