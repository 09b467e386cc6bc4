//! Chat templates: Jinja sources that come with a model.

use minijinja::{Environment, ErrorKind, context};
use serde::Serialize;

use crate::error::Result;

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions before the conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of the person.
    #[must_use]
    pub fn user(content: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            content: content.into(),
        }
    }
}

/// A model's chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
}

const NAME: &str = "chat";

impl ChatTemplate {
    /// Parses a template. `bos_token` and `eos_token` are what it may refer to by those names.
    ///
    /// # Errors
    /// [`crate::ModelError::ChatTemplate`] if it does not parse.
    pub fn new(source: &str, bos_token: Option<String>, eos_token: Option<String>) -> Result<Self> {
        let mut environment = Environment::new();
        // As Hugging Face's library renders them: block tags take no lines of their own, and
        // Python's string and dictionary methods work.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| {
            Err::<(), _>(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned(NAME, source.to_owned())?;
        Ok(Self {
            environment,
            bos_token: bos_token.unwrap_or_default(),
            eos_token: eos_token.unwrap_or_default(),
        })
    }

    /// Renders a conversation, up to where the assistant's answer begins.
    ///
    /// # Errors
    /// [`crate::ModelError::ChatTemplate`] if the template refuses the messages.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let template = self.environment.get_template(NAME)?;
        Ok(template.render(context! {
            messages,
            add_generation_prompt => true,
            bos_token => self.bos_token,
            eos_token => self.eos_token,
        })?)
    }
}
