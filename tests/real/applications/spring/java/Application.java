package news;

import java.util.concurrent.CountDownLatch;
import org.springframework.amqp.core.AnonymousQueue;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.FanoutExchange;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Profile;
import org.springframework.stereotype.Component;

/**
 * A Spring Boot 2 application that prints the news that it publishes.
 *
 * java news.Application --spring.rabbitmq.port=PORT --spring.profiles.active=anonymous|transient
 */
@SpringBootApplication
public class Application {
    public static void main(String[] arguments) {
        SpringApplication.run(Application.class, arguments).close();
    }

    /** Spring AMQP declares such a queue with x-queue-master-locator, from version 2.1 on. */
    @Bean("queue")
    @Profile("anonymous")
    Queue anonymousQueue() {
        return new AnonymousQueue();
    }

    @Bean("queue")
    @Profile("transient")
    Queue transientQueue() {
        return new Queue("spring", false);
    }

    @Bean
    FanoutExchange news() {
        return new FanoutExchange("news");
    }

    @Bean
    Binding binding(Queue queue, FanoutExchange news) {
        return BindingBuilder.bind(queue).to(news);
    }

    @Bean
    ApplicationRunner publisher(RabbitTemplate template, FanoutExchange news, Reader reader) {
        return arguments -> {
            template.convertAndSend(news.getName(), "", "hello from spring");
            reader.received.await();
        };
    }

    @Component
    static class Reader {
        final CountDownLatch received = new CountDownLatch(1);

        @RabbitListener(queues = "#{queue.name}")
        void receive(String text) {
            System.out.println(text);
            received.countDown();
        }
    }
}
