//! `fathom probe`.

mod client;
mod connect;
mod connect_rate;
mod egress;
mod endings;
mod errors;
mod explain;
mod given_up;
mod idle_gap;
mod load;
mod losses;
mod outages;
mod profiles;
mod reflectors;
mod run;
mod sizes;
mod stamp;
mod stamps;
mod threads;
mod tls;
mod udp_loss;
