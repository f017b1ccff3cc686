// Serves this folder to a browser on this machine, isolated, so that workers may share memory:
// node serve.mjs [PORT]
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize, sep } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const TYPES = {
  ".html": "text/html; charset=utf-8", ".mjs": "text/javascript", ".js": "text/javascript",
  ".wasm": "application/wasm", ".json": "application/json", ".bin": "application/octet-stream",
};
const ISOLATED = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
};

const server = createServer(async (request, response) => {
  const refuse = (status) => response.writeHead(status, ISOLATED).end();
  try {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const file = normalize(join(FOLDER, path.endsWith("/") ? `${path}index.html` : path));
    if (!file.startsWith(FOLDER) || file.includes(`${sep}.`)) return refuse(404);
    const { size } = await stat(file);
    const type = TYPES[extname(file)] ?? "application/octet-stream";
    response.writeHead(200, { ...ISOLATED, "Content-Type": type, "Content-Length": size });
    createReadStream(file).on("error", () => response.destroy()).pipe(response);
  } catch { refuse(404); }
});
server.listen(Number(process.argv[2] ?? 8080), "127.0.0.1", () => {
  console.log(`http://localhost:${server.address().port}/`);
});
