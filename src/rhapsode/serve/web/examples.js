/** Texts to try: each shows something else. */

export const EXAMPLES = {
  Greeting: "Hello, and welcome. It is good to hear from you.",
  Story:
    "A rhapsode was a performer who travelled from town to town and spoke long poems aloud. He knew them by heart. " +
    "On a good evening the whole square went quiet, and people who had come for bread stayed for the end of the story.",
  News:
    "Good morning. It is 7:30 on Tuesday, 3 March. Temperatures reach 14 °C today, with a 40 % chance of rain. " +
    "The museum reopens at noon; tickets cost $12.50.",
  Dialogue: "“Are you coming?” she asked. “In a minute,” he said. “You said that an hour ago!” He laughed. “Then it was a long minute.”",
  Twister: "She sells sea shells by the sea shore. Peter Piper picked a peck of pickled peppers. Red lorry, yellow lorry.",
};
