"""Everyday sentences from templates: meals, home, travel, work, weather; questions, lists and long sentences."""

from __future__ import annotations

import random
import re

from templates import FILLS, Fill

WORDS = {
    "food": """breakfast noodles dumplings porridge pancakes waffles sausages biscuits sandwiches spaghetti lasagne
    omelettes vegetables potatoes tomatoes onions garlic mushrooms spinach broccoli cabbage carrots celery cucumbers
    lettuce peppers pumpkin radishes turnips beans lentils chickpeas rice barley oats bread butter cheese yoghurt cream
    honey jam marmalade mustard vinegar pepper cinnamon ginger chocolate raspberries strawberries blueberries
    cherries peaches apricots oranges lemons bananas pineapple grapes almonds walnuts salmon herring shrimp chicken
    turkey bacon steak soup stew curry salad pudding pastries muffins doughnuts juice coffee tea lemonade""",
    "home": """bedroom bathroom kitchen balcony cellar attic hallway staircase wardrobe cupboard drawer mattress pillow
    blanket curtains carpet cushion sofa armchair bookshelf lamp candle mirror towel toothbrush shampoo soap bucket
    broom vacuum kettle toaster oven refrigerator freezer dishwasher saucepan spatula scissors envelope calendar
    umbrella raincoat suitcase backpack headphones keyboard charger thermometer ladder hammer screwdriver wrench
    flashlight mailbox doorbell fireplace chimney fence hedge wheelbarrow hose""",
    "job": """plumber electrician carpenter nurse surgeon dentist pharmacist librarian teacher professor lawyer judge
    journalist photographer musician violinist sculptor architect engineer mechanic pilot sailor farmer gardener
    florist butcher baker waiter cashier accountant secretary manager scientist biologist astronomer geologist
    firefighter detective colonel lieutenant sergeant mayor ambassador choreographer veterinarian psychologist""",
    "weather": """cloudy foggy windy drizzling freezing humid sunny stormy chilly mild scorching icy thundering
    snowing hazy overcast""",
    "verb": """borrowed repaired polished measured whispered swallowed scattered gathered stretched squeezed wrapped
    unfolded weighed peeled chopped stirred boiled sewed carved painted photographed recorded translated memorised
    recognised apologised hesitated exaggerated calculated examined encouraged persuaded interrupted celebrated""",
    "adverb": """quietly suddenly carefully eventually occasionally deliberately thoroughly awkwardly enthusiastically
    reluctantly accidentally immediately particularly approximately unfortunately surprisingly necessarily
    simultaneously especially probably certainly definitely""",
    "body": "shoulder elbow wrist knuckle thumb ankle knee stomach throat tongue eyebrow forehead muscle lungs heart",
    "animal": """squirrel hedgehog giraffe elephant rhinoceros penguin ostrich pigeon sparrow swallow eagle vulture
    lizard tortoise crocodile dolphin whale octopus jellyfish beetle butterfly dragonfly caterpillar spider wolf
    leopard kangaroo donkey goose rooster rabbit mouse""",
    "where": """at the corner of the street|behind the railway station|next to the pharmacy|under the bridge|by the lake
    across from the theatre|on the way to the airport|near the old lighthouse|in the middle of the village""".replace(
        "\n", "|"
    ),
    "why": """because nobody had told them|although it was already midnight|before the guests arrived|while we waited
    since the elevator was broken|so that everyone could hear|unless it rains again|until the engine cooled down
    as if nothing had happened|even though she was exhausted""".replace("\n", "|"),
}

TEMPLATES = """
We had {food} and {food} for breakfast.
Would you like some more {food}, or would you prefer {food}?
Please buy {food}, {food}, {food}, and a little {food}.
The {food} was cold, but the {food} tasted wonderful.
Who put the {home} in the {home}?
I left my {home} {where}.
Where did you find that {home}?
The {job} {adverb} {verb} the {home} {why}.
My neighbour is a {job}, and her brother wants to become a {job}.
Did the {job} say when the {home} would be ready?
It is {weather} and {weather} today {where}.
Will it be {weather} tomorrow, {first}?
A {animal} was sleeping {where}.
Have you ever seen a {animal} and a {animal} together?
She hurt her {body} when she {verb} the {home}.
The {animal}, the {animal}, and the {animal} live in the forest.
{first} {verb} the {home}, {verb} the {home}, and {adverb} {verb} the {food}.
Could you ask the {job} whether the {home} can be {verb}?
How much are the {food} and the {food}?
Why has nobody {verb} the {home}?
{adverb}, the {job} {verb} everything {why}.
I would rather eat {food} than {food}.
What is the difference between a {animal} and a {animal}?
Isn't there a {job} {where}?
""".strip().splitlines()

JOINS = (", and ", ", but ", "; ", ", so ", ", while ", ", and then ")
"""Between two sentences that become one."""
_HOLE = re.compile(r"\{(\w+)\}")


def _choices(words: str) -> list[str]:
    return [word.strip() for word in words.split("|")] if "|" in words else words.split()


def _pick(words: str) -> Fill:
    choices = _choices(words)
    return lambda rng: rng.choice(choices)


_FILLS: dict[str, Fill] = {**FILLS, **{name: _pick(words) for name, words in WORDS.items()}}


def sentence(rng: random.Random) -> str:
    """Returns one filled template."""
    line = _HOLE.sub(lambda hole: _FILLS[hole[1]](rng), rng.choice(TEMPLATES))
    return line[0].upper() + line[1:]


def joined(parts: list[str], rng: random.Random, most: int) -> str:
    """Joins statements into one long sentence of at most `most` letters."""
    line = parts[0].rstrip(".!?")
    for part in parts[1:]:
        longer = line + rng.choice(JOINS) + _lowered(part).rstrip(".!?")
        if len(longer) + 1 > most:
            break
        line = longer
    return f"{line}."


def _lowered(part: str) -> str:
    first, _, rest = part.partition(" ")
    common = first.lower() in _STARTERS
    return f"{first.lower() if common else first} {rest}"


_STARTERS = frozenset("the a an he she it they we you my his her our their this that there in on at if".split())
