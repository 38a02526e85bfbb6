"""A machine reads the OpenAPI page and tries what it allows, and what it does not: no 5xx, no hang."""

import pytest
import schemathesis
from hypothesis import given
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode

from e2e.serve.running import Running
from fuzzing import fuzzed

EXAMPLES = {"POST /v1/audio/speech": 40, "POST /v1/audio/speech/batch": 20, "POST /v1/audio/voices": 20}
HANG_S = 20
OPENAI, ELEVENLABS = {"message", "type", "param", "code"}, {"status", "message"}
ELEVENLABS_PATHS = ("/v1/text-to-", "/v1/voices", "/v1/user", "/v2/")


def attempt(operation: APIOperation, mode: GenerationMode) -> set[int]:
    """The statuses of many requests, none of which may be a server's fault."""
    seen: set[int] = set()

    @fuzzed(EXAMPLES.get(operation.label, 4))
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Case) -> None:
        answer = case.call(timeout=HANG_S)
        seen.add(answer.status_code)
        assert answer.status_code < 500, (answer.status_code, answer.text, case.as_curl_command())
        if answer.status_code >= 400:
            body = answer.json()
            is_elevenlabs = operation.path.startswith(ELEVENLABS_PATHS)
            assert body["detail" if is_elevenlabs else "error"].keys() == (ELEVENLABS if is_elevenlabs else OPENAI)

    try:
        run()
    except Unsatisfiable:
        assert not operation.body, operation.label  # a route without parameters: nothing to get wrong
    return seen


@pytest.mark.filterwarnings("ignore")  # what the fuzzer's own libraries have to say
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_nothing_the_schema_allows_or_forbids_is_a_server_error(cloning_dummy: Running, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{cloning_dummy.url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    seen = {operation.label: attempt(operation, mode) for operation in operations}
    assert 400 in seen["POST /v1/audio/speech"]
    assert 400 in seen["POST /v1/audio/voices"]
    assert mode.is_negative or 200 in seen["GET /v1/models"]
    cloning_dummy.settle()
    assert cloning_dummy.speak("Still here.").status_code == 200
