//! Compiles the typed requests of a section into the calls of the workers.

use std::sync::Arc;

use plimsoll_document::{Identity, Template};
use plimsoll_element as element;
use plimsoll_measure::random::{FNV_BASIS, fnv1a};

use super::head::Token;
use super::{
    Body, Call, Checks, Context, Error, Login, Piece, Url, Values, Workload, Workloads, body, head,
    read_back, template,
};
use crate::scenario::{Auth, Method, Request, Section};

/// A section and its surroundings.
pub(super) struct Compiler<'a> {
    pub(super) section: &'a Section,
    pub(super) url: &'a Url,
    pub(super) authorization: Option<&'a str>,
    pub(super) context: Context<'a>,
    pub(super) workloads: Workloads<'a>,
}

impl Compiler<'_> {
    pub(super) fn call(&self, name: &str, request: &Request, token: Token) -> Result<Call, Error> {
        let call = self.call_of(name, request, None, token)?;
        let reads = match &call.body {
            Body::Workload(workload) if workload.read_back().is_some() => Some(workload.clone()),
            _ => return Ok(call),
        };
        // The workload gives the path.
        let read = self.call_of(name, &Request::new(Method::Get, "/"), reads, token)?;
        Ok(Call { read_back: Some(Arc::new(read)), ..call })
    }

    /// Compiles a request, or the GET that reads the parts of a workload.
    fn call_of(
        &self,
        name: &str,
        request: &Request,
        reads: Option<Arc<dyn Workload>>,
        token: Token,
    ) -> Result<Call, Error> {
        let place = format!("{name}.request");
        let settings =
            template::Settings { seed: salted(self.context.seed, name), start_ms: self.context.start_ms };
        let with = request.with.as_ref();
        let with = with.map(|with| Values::compile(&format!("{place}.with"), with, settings)).transpose()?;
        let body = body::compile(&place, request, settings, self.workloads)?;
        let parts = head::Parts {
            place: &place,
            url: self.url,
            request,
            common: &self.section.headers,
            fields: with.as_ref().map_or(&[], |with| with.names.as_slice()),
            body: &body,
            authorization: self.authorization,
            token,
            has_path: reads.is_some(),
        };
        Ok(Call {
            name: name.to_owned(),
            method: request.method,
            head: head::compile(parts)?,
            checks: Checks::compile(&place, &request.check, request.method)?,
            makes: request.makes(),
            documents: request.documents(),
            with,
            body,
            read_back: self.read_back(name, request, token)?.map(Arc::new),
            times: body::document(request).map(template::times).unwrap_or_default(),
            reads,
        })
    }

    /// Compiles the request that reads a document back. Its placeholders have the values with which the document was sent, because
    /// they follow from the same template, seed and number.
    fn read_back(&self, name: &str, request: &Request, token: Token) -> Result<Option<Call>, Error> {
        let Some(typed) = &request.read_back else { return Ok(None) };
        let refused = |reason| Error::ReadBack { place: format!("{name}.request.read_back"), reason };
        let with = read_back::keys(request, typed).map_err(refused)?;
        let call = self.call(name, &Request { with: Some(with.clone()), ..(**typed).clone() }, token)?;
        if names_time(&call, with) {
            return Err(refused(
                "a placeholder is the time of sending ($now), which is unknown afterwards: name another field",
            ));
        }
        if !tells_apart(&call) {
            return Err(refused(
                "documents 0 and 1 have the same request, so it cannot tell them apart: name a field that differs for each document, such as $sequence or $number",
            ));
        }
        Ok(Some(call))
    }

    pub(super) fn login(&self) -> Result<Option<Login>, Error> {
        let Auth::Login { request, token } = &self.section.auth else { return Ok(None) };
        let path = crate::json::Path::parse(token);
        let path = path
            .ok_or_else(|| Error::JsonPath { place: "http.auth.login.token".into(), path: token.clone() })?;
        let call = self.call("http.auth.login", request, Token::None)?;
        Ok(Some(Login { call, token: path, place: token.clone() }))
    }
}

/// Whether a placeholder of the head is the time of sending.
fn names_time(call: &Call, with: &Template) -> bool {
    placeholders(call).filter_map(|name| with.fields().get(name)).any(template::is_time)
}

/// Whether a placeholder of the head differs between the first two documents.
fn tells_apart(call: &Call) -> bool {
    let Some(Values { program, .. }) = &call.with else { return false };
    let [first, second] = [0, 1].map(|number| {
        let mut values = Vec::new();
        program.encode(number, &Identity::default(), &mut values);
        values
    });
    let differs =
        |name: &String| element::find(&first, name.as_bytes()) != element::find(&second, name.as_bytes());
    placeholders(call).any(differs)
}

/// The fields in the head.
fn placeholders(call: &Call) -> impl Iterator<Item = &String> {
    let names = call.with.as_ref().map_or(&[][..], |with| with.names.as_slice());
    call.head.pieces.iter().filter_map(|piece| match piece {
        Piece::Url(field) | Piece::Header(field) => names.get(*field),
        Piece::Bytes(_) | Piece::Token | Piece::Length | Piece::Path => None,
    })
}

/// Derives the seed of an operation from its name, so that operations draw different values.
fn salted(seed: u64, name: &str) -> u64 {
    plimsoll_load::mix::scramble(seed, fnv1a(FNV_BASIS, name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_draw_different_values() {
        assert_ne!(salted(1, "a"), salted(1, "b"));
        assert_ne!(salted(1, "a"), salted(2, "a"));
        assert_eq!(salted(1, "a"), salted(1, "a"));
    }
}
