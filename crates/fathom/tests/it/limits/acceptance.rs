//! Searches against peers whose kernel acknowledges while the application does not answer: each waits for many seconds.

mod unanswered;
