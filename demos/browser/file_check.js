// A plain script: modules do not load from file://, so that no module could say this.

if (location.protocol === "file:") {
  document.getElementById("status").textContent =
    "This page was opened as a file, where browsers load no modules. In its folder run " +
    "“python -m http.server --bind 127.0.0.1 --directory ..” and open http://127.0.0.1:8000/browser/.";
}
