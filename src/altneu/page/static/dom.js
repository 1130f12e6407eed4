// Elements are made here, and texts only ever become text: nothing on the page is parsed as HTML.

/** An element: properties (on… are listeners, aria-… and data-… attributes, the rest properties), then children. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name in made && !name.startsWith("aria-") && !name.startsWith("data-")) made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function fill(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

export function later(wait, act) {
  let due;
  return (...given) => {
    clearTimeout(due);
    due = setTimeout(() => act(...given), wait);
  };
}
