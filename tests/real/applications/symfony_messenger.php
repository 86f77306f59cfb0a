<?php
// Symfony Messenger: a message sent and received over a queue that the DSN declares without flags, hence transient.
//
//     php symfony_messenger.php PORT

require 'Symfony/Component/Messenger/autoload.php';
require 'Symfony/Component/Messenger/Bridge/Amqp/autoload.php';

use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransportFactory;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

final class Greeting
{
    public function __construct(public readonly string $text)
    {
    }
}

$dsn = "amqp://guest:guest@127.0.0.1:{$argv[1]}/%2f/messenger?queues[messenger][flags]=0";
$transport = (new AmqpTransportFactory())->createTransport($dsn, [], new PhpSerializer());
$transport->send(new Envelope(new Greeting('hello from messenger')));
for ($received = false; !$received; usleep(10_000)) {
    foreach ($transport->get() as $envelope) {
        $transport->ack($envelope);
        echo $envelope->getMessage()->text, "\n";
        $received = true;
    }
}
