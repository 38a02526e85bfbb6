"""Speaks through litellm, in the environment that it needs for itself: python litellm_speak.py URL FILE."""

import sys

import litellm
import openai

url, file = sys.argv[1:]
where = {"api_base": f"{url}/v1", "api_key": "none", "max_retries": 0}
answer = litellm.speech(model="openai/tts-1", voice="low", input="Hello there.", response_format="wav", **where)
with open(file, "wb") as written:
    for part in answer.iter_bytes():
        written.write(part)
try:
    litellm.speech(model="openai/tts-1", voice="nobody", input="Hello there.", **where)
except openai.BadRequestError as error:
    print(error.status_code, error.message)
