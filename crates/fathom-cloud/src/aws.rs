//! AWS: `IMDSv2`, whose every question carries a token that it handed out before.

use super::Service;
use super::http::{Answer, Client};
use fathom_core::notice::{Cloud, Document, Instance, plain};
use std::time::{Duration, Instant};

const TOKEN: &str = "/latest/api/token";
const TOKEN_HEADER: &str = "X-aws-ec2-metadata-token";
const TTL_HEADER: &str = "X-aws-ec2-metadata-token-ttl-seconds";
/// The longest that AWS allows: six hours.
const TTL_SECONDS: u64 = 21_600;
const IDENTITY: &str = "/latest/dynamic/instance-identity/document";
const ZONE_ID: &str = "/latest/meta-data/placement/availability-zone-id";
const TAGS: &str = "/latest/meta-data/tags/instance/";
const EVENTS: &str = "/latest/meta-data/events/maintenance/scheduled";
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

pub(super) struct Aws {
    client: Client,
    tags: Vec<String>,
    token: Option<Token>,
}

struct Token {
    text: String,
    /// When to ask for the next, well before this one is refused.
    renew: Instant,
}

impl Aws {
    pub(super) fn new(client: Client, tags: Vec<String>) -> Self {
        Self { client, tags, token: None }
    }

    fn token(&mut self) -> Result<String, String> {
        if let Some(token) = self.token.as_ref().filter(|token| Instant::now() < token.renew) {
            return Ok(token.text.clone());
        }
        let asked = Instant::now();
        let answer = self.client.put(TOKEN, &[(TTL_HEADER, &TTL_SECONDS.to_string())], ANSWER_LIMIT)?;
        let granted = answer.header(TTL_HEADER).and_then(|ttl| ttl.parse().ok()).unwrap_or(TTL_SECONDS);
        let body = answer.ok()?;
        // What is no header value would be refused in the next request with words that name nothing.
        let text = plain(&body)
            .filter(|t| t.bytes().all(|b| b.is_ascii_graphic()))
            .ok_or("it handed out no token")?;
        // Two thirds of the time it is good for, and no more than was asked for.
        let renew = asked + Duration::from_secs(granted.min(TTL_SECONDS)) * 2 / 3;
        self.token = Some(Token { text: text.clone(), renew });
        Ok(text)
    }

    fn get(&mut self, path: &str) -> Result<Answer, String> {
        let token = self.token()?;
        let answer = self.client.get(path, &[(TOKEN_HEADER, &token)], ANSWER_LIMIT)?;
        if answer.status == 401 {
            // It may have forgotten its tokens; the next question asks for a new one.
            self.token = None;
        }
        Ok(answer)
    }
}

impl Service for Aws {
    fn cloud(&self) -> Cloud {
        Cloud::Aws
    }

    /// AWS announces days ahead, but the end of an event matters too.
    fn every(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn instance(&mut self) -> Result<Instance, String> {
        let identity = self.get(IDENTITY)?.ok()?;
        let mut instance = Instance::aws(&identity).map_err(|e| e.to_string())?;
        // Neither is there on every machine, and the rest is worth having without them.
        instance.physical_zone = self.get(ZONE_ID).and_then(Answer::ok).ok().as_deref().and_then(plain);
        for name in self.tags.clone() {
            // A name that would not be one part of a path is none that AWS shows here either.
            if name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-=._:@".contains(&b))
                && let Ok(value) = self.get(&format!("{TAGS}{name}")).and_then(Answer::ok)
                && let Some(value) = plain(&value)
            {
                instance.tags.insert(name, value);
            }
        }
        Ok(instance)
    }

    fn announced(&mut self) -> Result<Document, String> {
        let answer = self.get(EVENTS)?;
        // Where nothing was ever scheduled the path may not be there at all.
        let body = if answer.status == 404 { Vec::new() } else { answer.ok()? };
        Document::aws(&body).map_err(|e| e.to_string())
    }
}
