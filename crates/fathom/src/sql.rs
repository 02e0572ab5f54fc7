//! `fathom sql`: the arguments. What is done with them, `fathom_sql` knows.

use crate::exit::Failure;
use crate::output::{self, tell};
use crate::{command_line, probe, signals, values};
use fathom_core::query::MOST_CONNECTIONS;
use fathom_core::text::{cleaned, count};
use fathom_sql::{Config, Error, Recording, Source, Stop, Target, Turn};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  fathom sql postgres://app@db1/shop --query 'SELECT * FROM orders LIMIT 1000'
                                         21 times: server, path or client?
  fathom sql postgres://app@db1/shop --rows 100000 --row-bytes 100
                                         rows that the server makes up
  fathom sql postgres://app@db1/shop --rows 10000 --fetch-size 100
                                         what fetching in pieces costs here
  fathom sql mssql://app@db2/shop --rows 100000 --packet-size 4096,8192,16383
                                         SQL Server; ?sslmode=disable: unencrypted
  fathom sql mysql://app@db3/shop --rows 100000 --think 10us
                                         MySQL or MariaDB; a client that works
  fathom sql postgres://app@db1/shop --rows 1000 --connections 8
                                         eight at a time: is the server as quick?
  fathom sql postgres://app@db1/shop --query - --every 1s --for 1h < q.sql
                                         an hour of it; --record DIR keeps it
  fathom sql postgres://app@db1/shop --reflector db1 --json | jq .verdict
                                         there: fathom echo

Give the password by PGPASSWORD, PGPASSFILE or ~/.pgpass, for mysql by MYSQL_PWD, for mssql by SQLCMDPASSWORD: `ps` shows a URL to everybody. How the parts are found, and what that cannot see: docs/databases.md.

Ctrl-C has the server cancel the query, or all that are under way, waits 2s for its answer to that, and ends with the summary; a second one ends at once.

Exit codes: 0 every query was answered (Ctrl-C: those before it), 1 no login, a query failed or was given up, or the recording lacks something, 2 the command line cannot be used.";

/// Arguments of `fathom sql`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The database: postgres://USER@HOST:PORT/DATABASE?sslmode=disable|prefer|require|verify-ca|verify-full, or mysql:// or mssql://
    /// the same (mssql:// sslmode=login too; without sslmode it is require there, and prefer elsewhere)
    #[arg(value_name = "URL")]
    url: String,
    /// What to ask; - reads it from standard input. It is asked as it is: see that it only reads
    #[arg(long, value_name = "SQL", conflicts_with_all = ["rows", "row_bytes"], allow_hyphen_values = true)]
    query: Option<String>,
    /// Ask for so many rows that the server makes up, in a session that cannot write
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Size of each of them
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = values::size)]
    row_bytes: u64,
    /// Work on each row for so long, as an application would
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::duration)]
    think: Duration,
    /// Ask the same side by side on so many connections, 1 to 64: each as often as --count says, and --every at a phase of its own.
    /// One that is lost logs in anew
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_CONNECTIONS))]
    connections: u64,
    /// Ask so often on each connection, of several settings each [default: 21, of several sizes of packets 30, or until --for is over]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Ask for so long: no query begins later. One under way then is waited for as long as the server says something every 10s,
    /// or until --timeout
    #[arg(long = "for", value_name = "TIME", value_parser = values::duration)]
    lasts: Option<Duration>,
    /// Cancel a query that has no whole answer after so long, without the time of --think, and end the run; 0 waits for ever
    /// [default: 0, but see --for]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<Duration>,
    /// Give up after so long what is no session yet: connection, TLS and login; and so what fathom itself asks the server
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    connect_timeout: Duration,
    /// From one query's due to the next [default: one after the other]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    every: Option<Duration>,
    /// Rows of a round trip, 0 for all of them; several, each once, are asked in turn and held against the first [default: 0]
    #[arg(long, value_name = "ROWS,…", conflicts_with = "simple", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(..=1_000_000_000))]
    fetch_size: Vec<u32>,
    /// Size of packets to ask for (mssql); several, each once, are asked in turn and held against the first [default: 4096]
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(512..=32767))]
    packet_size: Vec<u16>,
    /// Use the simple query protocol: several statements at once
    #[arg(long)]
    simple: bool,
    /// Echo server on the database's host, to know the path's round trip by [default: set up connections to the database's
    /// port, two a second]
    #[arg(long, value_name = "HOST[:PORT]")]
    reflector: Option<String>,
    /// Record each query, and the round trips beside them, into DIR
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Print nothing but the result
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    fn config(self) -> Result<Config, Failure> {
        let target = Target::parse(&self.url, |name| std::env::var_os(name));
        let target = target.map_err(|why| Failure::usage(why.to_string()))?;
        if target.server().shows_password() && !self.quiet {
            let by = target.password_by();
            tell!("fathom: `ps` shows the password in a URL to everybody; give it by {by}");
        }
        let source = match self.query {
            None => Source::Rows { rows: self.rows, row_bytes: self.row_bytes },
            Some(sql) if sql == "-" => {
                let mut bytes = Vec::new();
                let read = std::io::stdin().lock().read_to_end(&mut bytes);
                read.map_err(|e| {
                    Failure::run(format!(
                        "cannot read the query from standard input: {e}; give it one that can be read, as in --query - < q.sql"
                    ))
                })?;
                let sql = String::from_utf8(bytes).map_err(|e| {
                    let after = count(e.utf8_error().valid_up_to() as u64, "byte");
                    Failure::usage(format!(
                        "--query -: what standard input gives is not UTF-8 after {after}; convert it, as by iconv -f LATIN1 -t UTF-8"
                    ))
                })?;
                Source::Text { sql, is_shown: false }
            }
            Some(sql) => Source::Text { sql, is_shown: true },
        };
        if let Source::Text { sql, .. } = &source {
            let wrong = if sql.contains('\0') {
                Some("there is a zero byte in it, which no server takes in a query; write it as text")
            } else if sql.trim().is_empty() {
                Some("there is no query in it; write SQL")
            } else {
                None
            };
            if let Some(wrong) = wrong {
                return Err(Failure::usage(format!("--query: {wrong}, as in --query 'SELECT 1'")));
            }
        }
        if self.lasts == Some(Duration::ZERO) {
            return Err(Failure::usage(
                "--for 0: that ends before it begins; leave it out to ask as often as --count says",
            ));
        }
        if self.connect_timeout.is_zero() {
            return Err(Failure::usage(
                "--connect-timeout: no server answers in no time; write a time, as in 10s",
            ));
        }
        let named_twice = [
            ("--fetch-size", twice(&self.fetch_size).map(u64::from)),
            ("--packet-size", twice(&self.packet_size).map(u64::from)),
        ];
        if let Some((option, size)) = named_twice.into_iter().find_map(|(option, size)| Some((option, size?)))
        {
            return Err(Failure::usage(format!(
                "{option}: {size} stands there twice; name each size once, because it is held against the others"
            )));
        }
        let recording = self.record.map(|dir| Recording {
            dir,
            tool: probe::tool(),
            command: command_line::to_run_again(),
        });
        let turns = Turn::each(&self.fetch_size, &self.packet_size);
        Ok(Config {
            target,
            source,
            think: self.think,
            count: self.count.or_else(|| self.lasts.is_none().then(|| Turn::usual_count(&turns))),
            lasts: self.lasts,
            timeout: self.timeout.filter(|timeout| !timeout.is_zero()),
            connect_timeout: self.connect_timeout,
            connections: self.connections,
            every: self.every.filter(|every| !every.is_zero()),
            fetch_size: turns[0].fetch_size,
            simple: self.simple,
            packet_size: turns[0].packet_size,
            sweep: if turns.len() > 1 { turns } else { vec![] },
            reflector: self.reflector,
            recording,
            tell: |line| tell!("fathom: {}", cleaned(line)),
            quiet: self.quiet,
        })
    }
}

/// What stands there a second time.
fn twice<T: Copy + PartialEq>(sizes: &[T]) -> Option<T> {
    let second = |(at, size): &(usize, &T)| sizes[..*at].contains(size);
    sizes.iter().enumerate().find(second).map(|(_, size)| *size)
}

/// Runs `fathom sql`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let (json, config) = (args.json, args.config()?);
    let stop = Stop::default();
    let asked = stop.clone();
    signals::on_request_to_end(move || asked.ask())?;
    // It is one line, whatever a server says in it.
    let failed = |error: Error| match error {
        Error::Usage(line) => Failure::Usage(cleaned(&line).into_owned()),
        error => Failure::Run(cleaned(&error.to_string()).into_owned()),
    };
    let (outcome, early) = fathom_sql::run(&config, &stop).map_err(failed)?;
    let text = if json { format!("{}\n", outcome.json()) } else { outcome.text() };
    output::print("the result", &text)?;
    early.map_or(Ok(()), |error| Err(failed(error)))
}
