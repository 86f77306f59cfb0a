// Sends messages to a queue with AMQP 1.0, takes them again, and prints how many came: PORT QUEUE COUNT
import rhea from "rhea";

const [port, queue] = process.argv.slice(2);
const count = Number(process.argv[4]);
const container = rhea.create_container();
const connection = container.connect({
  host: "127.0.0.1", port, username: "guest", password: "guest", reconnect: false,
});
let sent = 0, accepted = 0, received = 0;
connection.open_sender(queue);
container.on("sendable", ({ sender }) => {
  while (sender.sendable() && sent < count) {
    sender.send({ body: `message ${sent}` });
    sent += 1;
  }
});
container.on("accepted", () => {
  accepted += 1;
  if (accepted === count) {
    connection.open_receiver(queue);
  }
});
container.on("message", () => {
  received += 1;
  if (received === count) {
    connection.close();
  }
});
container.on("connection_close", () => console.log(received));
container.on("disconnected", ({ error }) => {
  if (error) {
    console.log(error.message);
    process.exit(1);
  }
});
