//! What the kinds of event are called.

use super::EventKind;

impl EventKind {
    /// The name of the kind, as in the recording.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RecordingStarted {} => "recording.started",
            Self::RecordingRotated { .. } => "recording.rotated",
            Self::RecordingContinues { .. } => "recording.continues",
            Self::RecordingEnded { .. } => "recording.ended",
            Self::SegmentClosed { .. } => "segment.closed",
            Self::RecordingRecovered { .. } => "recording.recovered",
            Self::ConnectionOpening { .. } => "connection.opening",
            Self::ConnectionOpened { .. } => "connection.opened",
            Self::ConnectionRefused { .. } => "connection.refused",
            Self::ConnectionClosed { .. } => "connection.closed",
            Self::StallBegan { .. } => "stall.began",
            Self::StallEnded { .. } => "stall.ended",
            Self::DelayBegan { .. } => "delay.began",
            Self::DelayEnded { .. } => "delay.ended",
            Self::ConnectionExplained { .. } => "connection.explained",
            Self::Pause { .. } => "pause",
            Self::ClockBounded { .. } => "clock.bounded",
            Self::ClockStepped { .. } => "clock.stepped",
            Self::Maintenance { .. } => "maintenance",
            Self::AddressChanged { .. } => "address.changed",
            Self::LoadBegan { .. } => "load.began",
            Self::LoadEnded { .. } => "load.ended",
            Self::ScheduleOverrun { .. } => "schedule.overrun",
            Self::ScheduleEnded { .. } => "schedule.ended",
            Self::ScheduleProgress { .. } => "schedule.progress",
            Self::EchoCorrupted { .. } => "echo.corrupted",
            Self::EchoForeign { .. } => "echo.foreign",
            Self::EchoDuplicated { .. } => "echo.duplicated",
            Self::ThroughputInterval { .. } => "throughput.interval",
            Self::ThroughputEnded { .. } => "throughput.ended",
            Self::LimitsBegan { .. } => "limits.began",
            Self::LimitsJudged { .. } => "limits.judged",
            Self::LimitsLived { .. } => "limits.lived",
            Self::LimitsHappened { .. } => "limits.happened",
            Self::CeilingBegan(_) => "ceiling.began",
            Self::CeilingStepped(_) => "ceiling.stepped",
            Self::LimitsEnded { .. } => "limits.ended",
            Self::RequestEnded(_) => "request.ended",
            Self::TryFailed(_) => "try.failed",
            Self::BreakerChanged(_) => "breaker.changed",
            Self::ClientInterrupted(_) => "client.interrupted",
            Self::ClientEnded { .. } => "client.ended",
            Self::SqlEnded { .. } => "sql.ended",
            Self::LossAttributed { .. } => "loss.attributed",
            Self::RecordingOverflowed { .. } => "recording.overflowed",
            Self::RecordingResumed { .. } => "recording.resumed",
            Self::Note { .. } => "note",
        }
    }
}
